package config

import (
	"fmt"
	"os"

	"github.com/spf13/viper"

	"github.com/stagewise/stagewise/stages"
)

// Load reads the file at path, applies the environment and then the settings (key=value) in their order, and checks the
// result. If anything is wrong with what they say it returns an *[Error] that lists all of it. If the file cannot be read
// the error wraps that of [os.ReadFile].
//
// A configuration without stages is accepted: see [Config.CheckStages].
func Load(path string, settings []string) (*Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return load(path, content, os.Environ(), settings)
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
	s.impossible(c.problems())
	if err := s.failure(); err != nil {
		return nil, err
	}
	return c, nil
}

// decode puts the values over the defaults. Every value has the type of its key by now, so decoding finds nothing wrong.
func (s *settings) decode() (*Config, error) {
	c := Defaults()
	for i := range s.lengths["stages"] {
		stage, key := DefaultStage(), fmt.Sprintf("stages.%d", i)
		if kind, ok := s.values[key+".features.kind"].value.(string); ok {
			stage.Features = stages.DefaultsOf(kind)
		}
		if s.anyBelow(key + ".stop") {
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
