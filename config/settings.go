package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/option"
)

// origin is where something was set.
type origin struct {
	source string
	line   int // 0: the source has no lines
}

// setting is how a key was set, and where.
type setting struct {
	value   reflect.Value // invalid for a mapping, a list of mappings and a null
	items   int           // of a list of mappings
	written string
	origin
}

// settings are the values that were set, and the problems found. Later settings replace earlier ones.
type settings struct {
	path      string             // of the file
	set       map[string]setting // by full key (stages.0.features.size)
	suggested map[string]bool    // the keys that misspelled ones were probably meant for
	ignored   []string           // names of variables with our prefix that are not keys
	problems  []Problem
}

func newSettings(path string) *settings {
	return &settings{path: path, set: map[string]setting{}, suggested: map[string]bool{}}
}

// put sets a key, which has a field, to y. A null resets the key to its default, or to none if the tag says so.
func (s *settings) put(key string, field reflect.StructField, y *yaml.Node, at origin) {
	y = resolve(y)
	switch t := behind(field.Type); {
	case y.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(y.ShortTag(), "!!") && !secretive.MatchString(key):
		s.wrong(key, written(y), "a value without a tag (!)", at)
	case isNull(y):
		s.reset(key)
		null := setting{written: written(y), origin: at}
		if field.Tag.Get("null") == "none" {
			null.value = reflect.Zero(t)
		}
		s.set[key] = null
	case isValue(t):
		s.putValue(key, t, field.Tag, y, at)
	case isList(t):
		s.putList(key, t, y, at)
	default:
		s.putMapping(key, t, y, at)
	}
}

func (s *settings) putValue(key string, t reflect.Type, tag reflect.StructTag, y *yaml.Node, at origin) {
	inFile := at.line > 0 // no other source has lines
	list := y
	if t.Kind() == reflect.Slice && y.Kind == yaml.ScalarNode { // one value needs no brackets
		list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{y}}
		if t.Elem().Kind() == reflect.String && (!inFile || tag.Get("single") == "split") {
			list = split(y)
		}
	}
	value, err := parse(list, t)
	if err != nil {
		s.wrong(key, written(y), want(y, t, err), at)
		return
	}
	if isPath(tag) && inFile {
		value = eachPath(value, func(path string) string {
			if filepath.IsAbs(path) || strings.Contains(path, "://") { // or a URL
				return path
			}
			return filepath.Join(filepath.Dir(s.path), path)
		})
	}
	s.set[key] = setting{value: value, written: written(y), origin: at}
}

// eachPath returns a path, or a list of paths, changed, except empty paths and the standard input.
func eachPath(value reflect.Value, change func(path string) string) reflect.Value {
	if list, ok := value.Interface().([]string); ok {
		list = slices.Clone(list)
		for i := range list {
			list[i] = eachPath(reflect.ValueOf(list[i]), change).String()
		}
		return reflect.ValueOf(list)
	}
	if path := value.String(); path != "" && path != ingest.StandardInput {
		return reflect.ValueOf(change(path))
	}
	return value
}

func (s *settings) putList(key string, t reflect.Type, y *yaml.Node, at origin) {
	if y.Kind != yaml.SequenceNode {
		s.wrong(key, written(y), "a list of mappings, each after a hyphen (-)", at)
		return
	}
	s.reset(key)
	s.set[key] = setting{items: len(y.Content), origin: at}
	for i, item := range y.Content {
		// Not put, which would make an element of defaults from a null.
		s.putMapping(option.Join(key, strconv.Itoa(i)), t.Elem(), resolve(item), at.lineOf(item))
	}
}

func (s *settings) putMapping(key string, t reflect.Type, y *yaml.Node, at origin) {
	if y.Kind != yaml.MappingNode {
		s.wrong(key, written(y), "a mapping with "+english.WordSeries(namesOf(t), "or"), at)
		return
	}
	s.set[key] = setting{origin: at}
	// Merged mappings (<<) come first, because the mapping's own keys replace theirs.
	for i := 0; i < len(y.Content); i += 2 {
		if isMerge(y.Content[i]) {
			s.merge(key, t, y.Content[i+1], at)
		}
	}
	lines := map[string]int{}
	for i := 0; i < len(y.Content); i += 2 {
		name, value, at := y.Content[i], resolve(y.Content[i+1]), at.lineOf(y.Content[i])
		field, known := fieldAt(t, name.Value)
		line, twice := lines[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode:
			s.wrong(option.Join(key, "?"), written(value), "text as the key, not "+written(resolve(name)), at)
			continue
		case twice:
			want := "this key once"
			if at.line > 0 {
				want += fmt.Sprintf(": line %d already has it", line)
			}
			s.wrong(option.Join(key, quoted(name.Value)), written(value), want, at)
			continue
		case isMerge(name):
		case !known || strings.Contains(name.Value, "."):
			s.unknown(t, key, name.Value, written(value), at)
		default:
			s.put(option.Join(key, name.Value), field, value, at)
		}
		lines[name.Value] = name.Line
	}
}

// merge puts the value of the key << of a mapping: a mapping, or a list of mappings, of which the first takes precedence.
func (s *settings) merge(key string, t reflect.Type, y *yaml.Node, at origin) {
	merged := []*yaml.Node{y}
	if list := resolve(y); list.Kind == yaml.SequenceNode {
		merged = slices.Clone(list.Content)
		slices.Reverse(merged)
	}
	for _, m := range merged {
		at := at.lineOf(m)
		if m = resolve(m); m.Kind != yaml.MappingNode {
			s.wrong(option.Join(key, "<<"), written(m), "a mapping to merge, or a list of mappings", at)
			continue
		}
		s.putMapping(key, t, m, at)
	}
}

// lineOf returns the line of y in the same source.
func (at origin) lineOf(y *yaml.Node) origin {
	if at.line > 0 {
		at.line = y.Line
	}
	return at
}

// reset removes the settings of a key and of all keys below it.
func (s *settings) reset(key string) {
	maps.DeleteFunc(s.set, func(k string, _ setting) bool { return k == key || strings.HasPrefix(k, key+".") })
}

// has reports whether a key has a value.
func (s *settings) has(key string) bool { return s.set[key].value.IsValid() }

// hasBelow reports whether a key below key has a value.
func (s *settings) hasBelow(key string) bool {
	for k := range s.set {
		if strings.HasPrefix(k, key+".") && s.has(k) {
			return true
		}
	}
	return false
}

// wrong adds a problem. It hides a value that may be a secret.
func (s *settings) wrong(key, value, want string, at origin) {
	if secretive.MatchString(key) {
		value = notShown
	}
	s.problems = append(s.problems, Problem{option.Problem{Key: key, Value: value, Want: want}, at.source, at.line})
}

// secretive matches keys of secrets, their parent keys, and misspellings of both, in files and in variables.
var secretive = regexp.MustCompile(`(?i)pas+w|pwd|phrase|secret|token|credential|sasl|^security$`)

const notShown = "(not shown)"

// userInfo matches the user and the password in a URL.
var userInfo = regexp.MustCompile(`://[^/@]*@`)

// unknown adds the problem that name is not a key of a type, which has the given key.
func (s *settings) unknown(t reflect.Type, key, name, value string, at origin) {
	before, _, tight := strings.Cut(name, ":")
	if _, known := fieldAt(t, before); tight && known {
		s.wrong(option.Join(key, quoted(before)), "a colon without a space after it", wantSpace, at)
		return
	}
	names := namesOf(t)
	want := "one of the keys " + english.WordSeries(names, "or")
	if len(names) == 1 {
		want = "the key " + names[0]
	}
	if isValue(t) {
		want = "no key below " + key + ", which has a value"
	} else if _, known := fieldAt(t, name); known {
		want = "nested keys, as in prepare: {pca: 50}; only --set supports dots"
	} else if meant := suggest(key, t, name); meant != "" {
		s.suggested[meant] = true
		if meant == name {
			meant += " at the top level"
		}
		want = fmt.Sprintf("a known key; did you mean %s?", strings.TrimPrefix(meant, key+"."))
	}
	s.wrong(option.Join(key, quoted(name)), value, want, at)
}

// impossible adds a problem for each value that its package rejects, with the original text and its place. It skips keys that
// already have a problem or were misspelled: their values are defaults, which the user did not write.
func (s *settings) impossible(problems []option.Problem) {
	for _, p := range problems {
		if s.suggested[p.Key] || slices.ContainsFunc(s.problems, func(known Problem) bool { return known.Key == p.Key }) {
			continue
		}
		p.Value = quoted(p.Value)
		set, ok := s.set[p.Key]
		if !ok {
			set = s.set[p.Key[:max(0, strings.LastIndexByte(p.Key, '.'))]] // the mapping that lacks the key
		} else if set.value.IsValid() {
			p.Value = userInfo.ReplaceAllString(set.written, "://"+notShown+"@")
		}
		s.problems = append(s.problems, Problem{p, cmp.Or(set.source, s.path), set.line})
	}
}

// failure returns all problems, those of the file first and in the order of its lines. It returns nil if there are none.
func (s *settings) failure() error {
	if len(s.problems) == 0 {
		return nil
	}
	place := func(p Problem) int {
		if p.Source == s.path {
			return p.Line
		}
		return math.MaxInt
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int { return cmp.Compare(place(a), place(b)) })
	return &Error{s.problems}
}
