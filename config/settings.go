package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/option"
)

// origin is where something was set.
type origin struct {
	source string
	line   int // 0: the source has no lines
}

// setting is what was set for a key, how it was written, and where.
type setting struct {
	value   any // of the type of the key's field; nil for a mapping, a list of mappings, and null
	length  int // of a list of mappings
	written string
	origin
}

// settings are what was set, by full key (stages.0.features.size), and what was wrong on the way. Later settings replace
// earlier ones.
type settings struct {
	path      string // of the file
	root      *node
	set       map[string]setting
	suggested map[string]bool // the keys that misspelled ones were probably meant for
	ignored   []string        // names of variables with our prefix that are not keys
	problems  []Problem
}

func newSettings(path string) *settings {
	return &settings{path: path, root: tree(), set: map[string]setting{}, suggested: map[string]bool{}}
}

// put sets key, whose node is n, to y. A null resets the key to its default, or to none if the key says so.
func (s *settings) put(key string, n *node, y *yaml.Node, at origin) {
	y = resolve(y)
	switch {
	case y.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(y.ShortTag(), "!!") && !secretive.MatchString(key):
		s.wrong(key, written(y), "a value without a tag (!)", at)
	case isNull(y) && n.isNone:
		s.set[key] = setting{value: "", written: written(y), origin: at}
	case isNull(y):
		s.reset(key)
		s.set[key] = setting{origin: at}
	case n.isValue():
		s.putValue(key, n, y, at)
	case n.element != nil:
		s.putList(key, n, y, at)
	default:
		s.putMapping(key, n, y, at)
	}
}

func (s *settings) putValue(key string, n *node, y *yaml.Node, at origin) {
	list := y
	if n.single && n.typ.Kind() == reflect.Slice && y.Kind == yaml.ScalarNode {
		if list = split(y); !n.split {
			list.Content = []*yaml.Node{y}
		}
	}
	value, err := parse(list, n.typ)
	if err != nil {
		s.wrong(key, written(y), want(y, n.typ, err), at)
		return
	}
	if n.isPath && at.line > 0 { // only the configuration file has lines
		eachPath(value, func(path string) string {
			if filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(filepath.Dir(s.path), path)
		})
	}
	s.set[key] = setting{value: value.Interface(), written: written(y), origin: at}
}

// eachPath changes a path, or each of a list of paths, but no empty one and no standard input.
func eachPath(value reflect.Value, change func(path string) string) {
	if value.Kind() == reflect.Slice {
		for i := range value.Len() {
			eachPath(value.Index(i), change)
		}
	} else if path := value.String(); path != "" && path != ingest.StandardInput {
		value.SetString(change(path))
	}
}

func (s *settings) putList(key string, n *node, y *yaml.Node, at origin) {
	if y.Kind != yaml.SequenceNode {
		s.wrong(key, written(y), "a list of mappings, each after a hyphen (-)", at)
		return
	}
	s.reset(key)
	s.set[key] = setting{length: len(y.Content), origin: at}
	for i, item := range y.Content {
		// Not put: that would make an element of defaults from a null.
		s.putMapping(join(key, strconv.Itoa(i)), n.element, resolve(item), at.lineOf(item))
	}
}

func (s *settings) putMapping(key string, n *node, y *yaml.Node, at origin) {
	if y.Kind != yaml.MappingNode {
		s.wrong(key, written(y), "a mapping with "+option.Enumerate(n.names(), "or"), at)
		return
	}
	s.set[key] = setting{origin: at}
	// Merged mappings (<<) come first, because the mapping's own keys replace theirs.
	for i := 0; i < len(y.Content); i += 2 {
		if isMerge(y.Content[i]) {
			s.merge(key, n, y.Content[i+1], at)
		}
	}
	lines := map[string]int{}
	for i := 0; i < len(y.Content); i += 2 {
		name, value, at := y.Content[i], resolve(y.Content[i+1]), at.lineOf(y.Content[i])
		child := n.child(name.Value)
		line, twice := lines[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode:
			s.wrong(join(key, "?"), written(value), "text as the key, not "+written(resolve(name)), at)
			continue
		case twice && at.line > 0:
			s.wrong(join(key, quoted(name.Value)), written(value), fmt.Sprintf("this key once: line %d already has it", line), at)
			continue
		case twice:
			s.wrong(join(key, quoted(name.Value)), written(value), "this key once: it is given twice", at)
			continue
		case isMerge(name):
		case child == nil:
			s.unknown(n, key, name.Value, written(value), at)
		default:
			s.put(join(key, child.name), child, value, at)
		}
		lines[name.Value] = name.Line
	}
}

// merge puts what the key << of a mapping holds: a mapping, or a list of them of which the first counts most.
func (s *settings) merge(key string, n *node, y *yaml.Node, at origin) {
	merged := []*yaml.Node{y}
	if list := resolve(y); list.Kind == yaml.SequenceNode {
		merged = slices.Clone(list.Content)
		slices.Reverse(merged)
	}
	for _, m := range merged {
		at := at.lineOf(m)
		if m = resolve(m); m.Kind != yaml.MappingNode {
			s.wrong(join(key, "<<"), written(m), "a mapping to merge, or a list of mappings", at)
			continue
		}
		s.putMapping(key, n, m, at)
	}
}

// lineOf returns the line of y in the same source.
func (at origin) lineOf(y *yaml.Node) origin {
	if at.line > 0 {
		at.line = y.Line
	}
	return at
}

// reset takes back what was set for a key and for all keys below it.
func (s *settings) reset(key string) {
	for k := range s.set {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(s.set, k)
		}
	}
}

// has reports whether a key has a value.
func (s *settings) has(key string) bool { return s.set[key].value != nil }

// hasBelow reports whether a key below key has a value.
func (s *settings) hasBelow(key string) bool {
	for k, set := range s.set {
		if strings.HasPrefix(k, key+".") && set.value != nil {
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

// unknown adds the problem that name, below the key whose node is n, is no key.
func (s *settings) unknown(n *node, key, name, value string, at origin) {
	if before, _, tight := strings.Cut(name, ":"); tight && n.at(before) != nil {
		s.wrong(join(key, quoted(before)), "a colon without a space after it", wantSpace, at)
		return
	}
	want := "one of the keys " + option.Enumerate(n.names(), "or")
	if len(n.children) == 1 {
		want = "the key " + n.children[0].name
	}
	if n.isValue() {
		want = "no key below " + key + ", which has a value"
	} else if n.at(name) != nil {
		want = "nested keys, as in prepare: {pca: 50}; only --set supports dots"
	} else if meant := n.suggest(key, name, s.root); meant != "" {
		s.suggested[meant] = true
		if meant == name {
			meant += " at the top level"
		}
		want = fmt.Sprintf("a known key; did you mean %s?", strings.TrimPrefix(meant, key+"."))
	}
	s.wrong(join(key, quoted(name)), value, want, at)
}

// impossible adds a problem for each value that its package refuses, with the original text and its place. It leaves out keys
// that already have a problem, or that were misspelled: their values are the defaults, which nobody wrote.
func (s *settings) impossible(problems []option.Problem) {
	known := map[string]bool{}
	for _, p := range s.problems {
		known[p.Key] = true
	}
	for _, p := range problems {
		if known[p.Key] || s.suggested[p.Key] {
			continue
		}
		known[p.Key] = true
		set, ok := s.set[p.Key]
		if !ok {
			set = s.set[p.Key[:max(0, strings.LastIndexByte(p.Key, '.'))]] // the mapping that lacks the key
		} else if set.value != nil {
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
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		switch inFile := a.Source == s.path; {
		case inFile == (b.Source == s.path):
			return cmp.Compare(a.Line, b.Line)
		case inFile:
			return -1
		}
		return 1
	})
	return &Error{s.problems}
}
