package config

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
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
	c.Untuned, c.ignored = s.untuned(c), s.ignored
	c.Unlinked = c.Untuned && !s.has("stages.0.link")
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
		return nil, fmt.Errorf("decode configuration: %w", err)
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

// decodeHook keeps values that have the type of their field, and makes a list, which has its elements already, from the mapping by number
// that viper has for keys such as stages.0.passes.
func decodeHook(from, to reflect.Value) (any, error) {
	below, numbered := from.Interface().(map[string]any)
	if from.Type() == to.Type() {
		to.Set(from)
		return nil, nil
	}
	if to.Kind() != reflect.Slice || !numbered {
		return from.Interface(), nil
	}
	elements := make([]any, to.Len())
	for i := range elements {
		elements[i] = below[strconv.Itoa(i)]
	}
	return elements, nil
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

// file applies the file. It returns false if the file cannot be parsed, so that no other check is useful.
func (s *settings) file(content []byte) bool {
	root, f := parseYAML(content)
	if f != nil {
		s.wrong("YAML", f.value, f.want, origin{s.path, f.line})
		return false
	}
	if root == nil || isNull(root) {
		return true
	}
	at := origin{s.path, root.Line}
	if root.Kind != yaml.MappingNode {
		s.wrong("YAML", written(root), "key: value on each line, as in name: mnist", at)
		return false
	}
	s.putMapping("", reflect.TypeFor[Config](), root, at)
	return true
}

const prefix = "STAGEWISE_"

// notKeys are the variables with our prefix that are not keys: they choose a BLAS and vector instructions, or configure
// tests.
const notKeys = " STAGEWISE_BLAS STAGEWISE_VECTOR STAGEWISE_KAFKA STAGEWISE_KAFKA_SECURITY STAGEWISE_MNIST STAGEWISE_PYTHON "

// serviceVariable matches the variables that Kubernetes sets in each pod for each Service of its namespace, unless the pod has
// enableServiceLinks: false (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables). Those of a Service
// whose name begins with stagewise, such as that of deploy/kubernetes, have our prefix.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST=[0-9a-f.:]+|SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://\S+|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO=(tcp|udp|sctp)|PORT=[0-9]+|ADDR=[0-9a-f.:]+))$`)

// stageNumber finds the number of a stage in the name of a variable.
var stageNumber = regexp.MustCompile(`^STAGES_(\d+)`)

// environment applies the variables with our prefix. It ignores empty ones, as is usual, and those of Services of Kubernetes.
func (s *settings) environment(environ []string) {
	keys := map[string]string{}     // by variable; those of mappings have no variable
	mappings := map[string]string{} // by the name that their variable would have
	walk("", reflect.TypeFor[Config](), func(key string, t reflect.Type) {
		name := strings.ToUpper(strings.NewReplacer(".", "_", "*", "0").Replace(key)) // of the first stage
		if isValue(t) || isList(t) {
			keys[name] = key
		} else {
			mappings[name] = key
		}
	})
	for _, e := range slices.Sorted(slices.Values(environ)) { // the list stages comes before stages.0, which changes it
		name, value, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || strings.Contains(notKeys, " "+name+" ") {
			continue
		}
		number := "0"
		if found := stageNumber.FindStringSubmatch(rest); found != nil {
			number = found[1]
			rest = strings.Replace(rest, number, "0", 1)
		}
		key, known := keys[rest]
		switch {
		case known:
			s.assign(strings.Replace(key, "*", number, 1), value, origin{source: name})
		case serviceVariable.MatchString(e):
			s.ignored = append(s.ignored, name)
		default:
			want := "the name of a key after " + prefix + ", such as STAGEWISE_DATA_DIR"
			if key, is := mappings[rest]; is && rest != "" {
				field, _ := fieldAt(reflect.TypeFor[Config](), key)
				want = "a variable for one key below " + key + ", such as " + name + "_" + strings.ToUpper(namesOf(behind(field.Type))[0])
			} else if meant := option.Nearest(rest, slices.Sorted(maps.Keys(keys))); meant != "" {
				want = "a known variable; did you mean " + prefix + strings.Replace(meant, "_0", "_"+number, 1) + "?"
			}
			s.wrong(quoted(name), quoted(value), want, origin{source: "environment"})
		}
	}
}

// commandLine applies the settings of a flag, of the form key=value.
func (s *settings) commandLine(flag string, set []string) {
	for _, assignment := range set {
		key, value, ok := strings.Cut(assignment, "=")
		if !ok {
			s.wrong(quoted(assignment), "no value", "key=value", origin{source: flag})
			continue
		}
		s.assign(key, value, origin{source: flag})
	}
}

// assign sets a key to a line of text, which is YAML. A list of texts may lack its brackets, and a secret in the environment is not YAML.
func (s *settings) assign(key, line string, at origin) {
	field, known := fieldAt(reflect.TypeFor[Config](), key)
	isSecret := known && field.Type == reflect.TypeFor[kafkalog.Secret]()
	switch {
	case isSecret && at.source == prefix+strings.ToUpper(strings.ReplaceAll(key, ".", "_")):
		s.set[key] = setting{value: reflect.ValueOf(kafkalog.NewSecret(line)), written: notShown, origin: at}
		return
	case isSecret:
		s.wrong(key, notShown, want(&yaml.Node{}, field.Type, errSecret), at)
		return
	case known && isPath(field.Tag) && (line == ingest.StandardInput || strings.HasPrefix(line, "*")):
		line = strconv.Quote(line) // in YAML - is a list with a null, and * begins an alias
	}
	y, f := parseYAML([]byte(line))
	if f != nil {
		s.wrong(quoted(key), quoted(line), "YAML; "+f.value+" needs "+f.want, at)
		return
	}
	if y == nil {
		y = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	shown := written(resolve(y))
	if secretive.MatchString(key) { // any part of it, as one part may be misspelled
		shown = notShown
	}
	t, path := reflect.TypeFor[Config](), ""
	for name := range strings.SplitSeq(key, ".") {
		field, known = fieldAt(t, name)
		if isList(t) {
			i, err := strconv.Atoi(name)
			if n := s.set[path].items; err != nil || strconv.Itoa(i) != name || i < 0 || i >= n {
				s.wrong(quoted(key), shown, fmt.Sprintf("the number of a stage, from 0: the list has %d", n), at)
				return
			}
		} else if !known {
			s.unknown(t, path, name, shown, at)
			return
		}
		t, path = behind(field.Type), option.Join(path, name)
	}
	s.put(path, field, y, at)
}

// Over is a key of the configuration, and the values that a search tries for it, as --set takes them.
type Over struct {
	Key    string
	Values []string
}

// searched returns the keys, or prefixes of keys, for which a search may try values: keys that change how a version is made from the rows,
// but not the set of rows.
func searched() []string {
	return []string{"stages.", "prepare.", "average", "seed", "intercept", "examples.class_weight"}
}

// ParseOver parses a key and its values, as stages.0.ridge=[1e-4, 1e-3]. The error is a [option.Problem].
func ParseOver(text string) (Over, error) {
	key, list, _ := strings.Cut(text, "=")
	o := Over{Key: strings.TrimSpace(key)}
	if !slices.ContainsFunc(searched(), func(begin string) bool {
		return o.Key == begin || strings.HasSuffix(begin, ".") && strings.HasPrefix(o.Key, begin)
	}) {
		return o, option.Problem{Key: "--over", Value: quoted(text), Want: "a key under stages or prepare, or average, seed, " +
			"intercept or examples.class_weight: runs with other rows can't be compared"}
	}
	var items []yaml.Node
	if yaml.Unmarshal([]byte(list), &items) != nil {
		items = nil
	}
	for _, item := range items {
		switch item.Kind {
		case yaml.ScalarNode:
			o.Values = append(o.Values, item.Value)
		case yaml.MappingNode: // as numbers by label
			item.Style = yaml.FlowStyle
			if line, err := yaml.Marshal(&item); err == nil {
				o.Values = append(o.Values, strings.TrimSpace(string(line)))
			}
		}
	}
	if len(o.Values) > 0 && len(o.Values) == len(items) {
		return o, nil
	}
	return o, option.Problem{Key: "--over", Value: quoted(text), Want: "a list of values after the key, as in stages.0.ridge=[1e-4, 1e-3]"}
}
