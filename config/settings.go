package config

import (
	"cmp"
	"fmt"
	"path/filepath"
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

// setting is the value of one key, how it was written, and where.
type setting struct {
	value   any // of the key's kind
	written string
	origin
}

// settings are the values that were set, by full key (stages.0.features.size), and what was wrong on the way. Later values
// replace earlier ones. They stand between YAML and viper because viper neither keeps lines nor reaches into lists.
type settings struct {
	path      string // of the file
	root      *node
	values    map[string]setting
	places    map[string]origin // of mappings, lists and nulls, for problems with what they leave out
	lengths   map[string]int    // of lists
	suggested map[string]bool   // the keys that misspelled ones were probably meant for
	ignored   []string          // names of variables with our prefix that are not keys
	problems  []Problem
}

func newSettings(path string) *settings {
	return &settings{
		path: path, root: tree(),
		values: map[string]setting{}, places: map[string]origin{}, lengths: map[string]int{}, suggested: map[string]bool{},
	}
}

// put sets key, whose node is n, to y. A null resets the key to its default, or to none if the key says so.
func (s *settings) put(key string, n *node, y *yaml.Node, at origin) {
	y = resolve(y)
	switch {
	case hasCustomTag(y) && n.kind != kindSecret:
		s.wrong(key, written(y), "a value without a tag (!)", at)
	case isNull(y) && n.isNone:
		s.values[key] = setting{"", written(y), at}
	case isNull(y):
		s.reset(key)
		s.places[key] = at
	case n.isValue():
		s.putValue(key, n, y, at)
	case n.element != nil:
		s.putList(key, n, y, at)
	default:
		s.putMapping(key, n, y, at)
	}
}

// hasCustomTag reports whether y has a tag that is not YAML's own, as in !env HOME. Nothing here could give it a meaning.
func hasCustomTag(y *yaml.Node) bool {
	return y.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(y.ShortTag(), "!!")
}

func (s *settings) putValue(key string, n *node, y *yaml.Node, at origin) {
	text := written(y)
	if n.single && n.kind == kindTexts && y.Kind == yaml.ScalarNode {
		if one := y; n.split && !isNull(y) {
			y = split(y)
		} else {
			y = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{one}}
		}
	}
	value, ok := n.kind.read(y)
	if !ok {
		s.wrong(key, text, n.kind.want(y), at)
		return
	}
	if n.isPath && at.line > 0 { // only the configuration file has lines
		value = beside(s.path, value)
	}
	s.values[key] = setting{value, text, at}
}

// beside returns a path, or a list of paths, that are relative to the folder of a file, relative to the working directory.
func beside(file string, value any) any {
	from := func(path string) string {
		if path == "" || path == ingest.StandardInput || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(file), path)
	}
	list, ok := value.([]string)
	if !ok {
		return from(value.(string))
	}
	for i, path := range list {
		list[i] = from(path)
	}
	return list
}

func (s *settings) putList(key string, n *node, y *yaml.Node, at origin) {
	if y.Kind != yaml.SequenceNode {
		s.wrong(key, written(y), "a list of mappings, each after a hyphen (-)", at)
		return
	}
	s.reset(key)
	s.places[key], s.lengths[key] = at, len(y.Content)
	for i, item := range y.Content {
		// Not put: that would make an element of defaults from a null.
		s.putMapping(join(key, strconv.Itoa(i)), n.element, resolve(item), at.lineOf(item))
	}
}

func (s *settings) putMapping(key string, n *node, y *yaml.Node, at origin) {
	if y.Kind != yaml.MappingNode {
		s.wrong(key, written(y), "a mapping with "+oneOf("or", n.names()), at)
		return
	}
	s.places[key] = at
	// Merged mappings (<<) come first, because the mapping's own keys replace theirs.
	for i := 0; i < len(y.Content); i += 2 {
		if isMerge(y.Content[i]) {
			s.merge(key, n, y.Content[i+1], at)
		}
	}
	lines := map[string]int{}
	for i := 0; i < len(y.Content); i += 2 {
		name, value := y.Content[i], y.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			s.wrong(join(key, "?"), written(resolve(value)), "text as the key, not "+written(resolve(name)), at.lineOf(name))
			continue
		}
		if line, twice := lines[name.Value]; twice {
			s.wrong(join(key, quoted(name.Value)), written(resolve(value)), "this key once: "+at.before(line), at.lineOf(name))
			continue
		}
		if lines[name.Value] = name.Line; isMerge(name) {
			continue
		}
		child := n.child(name.Value)
		if child == nil {
			s.unknown(n, key, name.Value, written(resolve(value)), at.lineOf(name))
			continue
		}
		s.put(join(key, child.name), child, value, at.lineOf(name))
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

// before says where a key was set first.
func (at origin) before(line int) string {
	if at.line > 0 {
		return fmt.Sprintf("line %d already has it", line)
	}
	return "it is given twice"
}

// reset takes back the values of a key and of all keys below it.
func (s *settings) reset(key string) {
	for k := range s.values {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(s.values, k)
		}
	}
	for k := range s.places {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(s.places, k)
		}
	}
	delete(s.lengths, key)
}

// anyBelow reports whether a key below key has a value.
func (s *settings) anyBelow(key string) bool {
	for k := range s.values {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// nested returns the values as a tree of maps and lists. It has no empty maps, except as elements of lists.
func (s *settings) nested() map[string]any { return s.mapping("", s.root) }

func (s *settings) mapping(key string, n *node) map[string]any {
	mapping := map[string]any{}
	for _, c := range n.children {
		key := join(key, c.name)
		switch {
		case c.isValue():
			if set, ok := s.values[key]; ok {
				mapping[c.name] = set.value
			}
		case c.element != nil:
			if elements := s.elements(key, c.element); len(elements) > 0 {
				mapping[c.name] = elements
			}
		default:
			if below := s.mapping(key, c); len(below) > 0 {
				mapping[c.name] = below
			}
		}
	}
	return mapping
}

func (s *settings) elements(key string, element *node) []any {
	list := make([]any, s.lengths[key])
	for i := range list {
		list[i] = s.mapping(join(key, strconv.Itoa(i)), element)
	}
	return list
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
	want := "one of the keys " + oneOf("or", n.names())
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
		at := origin{source: s.path}
		if set, ok := s.values[p.Key]; ok {
			at, p.Value = set.origin, userInfo.ReplaceAllString(set.written, "://"+notShown+"@")
		} else if place, ok := s.places[p.Key]; ok {
			at = place
		} else if place, ok := s.places[parent(p.Key)]; ok {
			at = place
		}
		s.problems = append(s.problems, Problem{p, at.source, at.line})
	}
}

func parent(key string) string { return key[:max(0, strings.LastIndexByte(key, '.'))] }

// failure returns all problems, those of the file first and in the order of its lines. It returns nil if there are none.
func (s *settings) failure() error {
	if len(s.problems) == 0 {
		return nil
	}
	elsewhere := func(p Problem) int {
		if p.Source == s.path {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		return cmp.Or(elsewhere(a)-elsewhere(b), cmp.Compare(a.Line, b.Line))
	})
	return &Error{s.problems}
}
