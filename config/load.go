package config

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Load reads the file at path, applies the environment and then the settings (key=value) in their order, and checks the
// result. If any value is invalid, it returns an *[Error] that lists all problems. If the file cannot be read, the error
// wraps that of [os.ReadFile]. over are settings that a search tries; the source of their problems is --over.
func Load(path string, settings []string, over ...string) (*Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return load(path, content, os.Environ(), settings, over...)
}

func load(path string, content []byte, environ, set []string, over ...string) (*Config, error) {
	s := newSettings(path)
	if !s.file(content) {
		return nil, s.failure()
	}
	s.environment(environ)
	s.commandLine("--set", set)
	s.commandLine("--over", over)

	c, err := s.config()
	if err != nil {
		return nil, err
	}
	c.untuned, c.ignored = s.untuned(c), s.ignored
	c.unlinked = c.untuned && !s.has("stages.0.link")
	var problems option.Problems
	if c.Examples, err = c.Examples.WithArchiveTopic(context.Background()); err != nil {
		problems.Add("examples.archive.files", c.Examples.Archive.Files, "files of an archive: "+err.Error())
	}
	s.impossible(append(problems, c.problems()...))
	if err := s.failure(); err != nil {
		return nil, err
	}
	s.passes(c)
	return c, nil
}

// untuned reports whether there is at most one stage, with features that suit sparse rows, and no key other than its kind of features
// and its link configures its preparation and fit.
func (s *settings) untuned(c *Config) bool {
	unsuited := func(s Stage) bool { return !slices.Contains(stages.KindOf(s.Features).Suits, stages.SparseRows) }
	if len(c.Stages) > 1 || slices.ContainsFunc(c.Stages, unsuited) || s.hasBelow("prepare") {
		return false
	}
	for key := range s.set {
		tunes := strings.HasPrefix(key, "stages.") && key != "stages.0.features.kind" && key != "stages.0.link"
		if tunes && s.has(key) {
			return false
		}
	}
	return true
}

// passes sets the passes that are not set. Rounds end a stage that is fitted in blocks. The last stage has its own default: if its entry
// stands for several stages, the last of them becomes an entry of its own.
func (s *settings) passes(c *Config) {
	for i := range c.Stages {
		stage, key := &c.Stages[i], fmt.Sprintf("stages.%d", i)
		switch kind := stages.KindOf(stage.Features); {
		case s.has(key + ".passes"):
		case kind.InBlocks:
			stage.Passes = solve.MaxPasses
			if !s.has(key + ".features.rounds") {
				stage.Features.Rounds = solve.DefaultRounds(stage.Link)
			}
		case i == len(c.Stages)-1 && !kind.Grown && solve.LastPasses(stage.Stage) != stage.Passes:
			last := *stage
			last.Passes, last.Repeat = solve.LastPasses(stage.Stage), 1
			if stage.Repeat--; stage.Repeat == 0 {
				c.Stages = c.Stages[:i]
			}
			c.Stages = append(c.Stages, last)
		}
	}
}

// config returns the defaults, overridden by the settings.
func (s *settings) config() (*Config, error) {
	c := Defaults()
	for i := range s.set["stages"].items {
		stage, key := DefaultStage(), fmt.Sprintf("stages.%d", i)
		if kind := key + ".features.kind"; s.has(kind) {
			if stage.Features = stages.DefaultsOf(s.set[kind].value.String()); stages.KindOf(stage.Features).Grown {
				solve.GrownDefaults(&stage.Stage)
			}
		}
		if s.hasBelow(key + ".stop") {
			stage.Stop = DefaultStop()
		}
		c.Stages = append(c.Stages, stage)
	}
	if err := s.decode(c); err != nil {
		return nil, err
	}
	for i := range c.Stages {
		stage, key := &c.Stages[i], fmt.Sprintf("stages.%d", i)
		if task := c.Examples.Task(); task != examples.OneLabel && !s.has(key+".link") {
			stage.Link = schemas.Link(model.LinksOf(task)[0])
		}
		if !s.has(key+".rate") && solve.WholeSteps(stage.Link) {
			stage.Rate = 0
		}
	}
	if !s.has("examples.holdout") {
		c.Examples.Holdout = c.defaultHoldout()
	}
	return c, nil
}

// decode overrides the defaults in c by the settings. The lists in c have the number of elements that were set.
func (s *settings) decode(c *Config) error {
	v := viper.New()
	for key, set := range s.set {
		if s.has(key) {
			v.Set(key, set.value.Interface())
		}
	}
	err := v.UnmarshalExact(c, viper.DecodeHook(decodeHook), func(d *mapstructure.DecoderConfig) {
		d.TagName, d.Squash = "yaml", true
		d.MatchName = func(key, name string) bool {
			return key == name || key == option.KeyOf(reflect.StructField{Name: name})
		}
	})
	if err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	return nil
}

// decodeHook keeps values that have the type of their field, and makes a list from the mapping by number that viper has for keys such as
// stages.0.passes.
func decodeHook(from, to reflect.Value) (any, error) {
	switch below, numbered := from.Interface().(map[string]any); {
	case from.Type() == to.Type():
		to.Set(from)
		return nil, nil
	case to.Kind() == reflect.Slice && numbered:
		elements := make([]any, to.Len())
		for i := range elements {
			elements[i] = below[strconv.Itoa(i)]
		}
		return elements, nil
	}
	return from.Interface(), nil
}

// defaultHoldout returns the default fraction of held-out rows: above 0 if holdout rows determine a choice.
func (c *Config) defaultHoldout() float64 {
	chooses := func(stage Stage) bool { return stage.Features.Weight == schemas.WeightAuto }
	switch {
	case c.Examples.Labels == layout.LabelsSeveral:
		return ingest.DefaultSeveralHoldout
	case c.Threshold.Chosen(), slices.ContainsFunc(c.Stages, chooses):
		return stages.DefaultHoldout
	}
	return Defaults().Examples.Holdout
}
