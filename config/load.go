package config

import (
	"fmt"
	"os"

	"github.com/spf13/viper"
	"github.com/stagewise/stagewise/stages"
)

// Load reads the configuration in a file, changed by the environment and by settings of the form key=value, and checks it.
// What is wrong with it is an *[Error] that lists everything; a file that can't be read is the system's error.
//
// A list without stages is fine: not every command needs them. See [Config.CheckStages].
func Load(path string, set []string) (*Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return load(path, content, os.Environ(), set)
}

func load(path string, content []byte, environ, set []string) (*Config, error) {
	s := newSettings(path)
	if !s.file(content) {
		return nil, s.failure()
	}
	s.environment(environ)
	s.commandLine(set)

	c, err := s.decode()
	if err != nil {
		return nil, err
	}
	c.path = path
	for _, p := range c.problems() {
		s.impossible(p)
	}
	if err := s.failure(); err != nil {
		return nil, err
	}
	return c, nil
}

// decode puts the values over the defaults. All are of the right kind by now, so that mapstructure finds nothing wrong.
func (s *settings) decode() (*Config, error) {
	c := Defaults()
	for i := range s.lengths["stages"] {
		stage, key := DefaultStage(), fmt.Sprintf("stages.%d", i)
		if kind, ok := s.values[key+".features.kind"].value.(string); ok {
			stage.Features = stages.DefaultsOf(kind)
		}
		if s.says(key + ".stop") {
			stage.Stop = DefaultStop()
		}
		c.Stages = append(c.Stages, stage)
	}
	v := viper.New()
	if err := v.MergeConfigMap(s.nested()); err != nil {
		return nil, fmt.Errorf("merge configuration: %w", err)
	}
	if err := v.Unmarshal(c); err != nil {
		return nil, fmt.Errorf("decode configuration: %w", err)
	}
	return c, nil
}
