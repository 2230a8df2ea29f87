package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"go.yaml.in/yaml/v3"
)

// origin is where something was said.
type origin struct {
	source string
	line   int // 0: the source has none
}

// setting is one value, of the kind of its key, with how and where it was written.
type setting struct {
	value   any
	written string
	origin
}

// settings are all that was said, by full key (stages.0.features.size), where later values have replaced earlier ones, and
// all that was wrong with how it was said. They stand between YAML and viper, which neither keeps lines nor reaches into
// lists.
type settings struct {
	path     string // of the file
	root     *node
	values   map[string]setting
	mappings map[string]origin // where mappings and lists were said, for what they lack
	lengths  map[string]int    // of lists
	problems []Problem
}

func newSettings(path string) *settings {
	return &settings{
		path: path, root: tree(),
		values: map[string]setting{}, mappings: map[string]origin{}, lengths: map[string]int{},
	}
}

// put sets key, which is the place n of the tree, to what y says. A null takes back what was said before.
func (s *settings) put(key string, n *node, y *yaml.Node, at origin) {
	y = resolve(y)
	switch {
	case isNull(y):
		s.forget(key)
	case n.isValue():
		s.putValue(key, n, y, at)
	case n.element != nil:
		s.putList(key, n, y, at)
	default:
		s.putMapping(key, n, y, at)
	}
}

func (s *settings) putValue(key string, n *node, y *yaml.Node, at origin) {
	value, ok := n.kind.read(y)
	if !ok {
		s.wrong(key, written(y), n.kind.String(), at)
		return
	}
	s.values[key] = setting{value, written(y), at}
}

func (s *settings) putList(key string, n *node, y *yaml.Node, at origin) {
	if y.Kind != yaml.SequenceNode {
		s.wrong(key, written(y), "a list of mappings", at)
		return
	}
	s.forget(key)
	s.mappings[key], s.lengths[key] = at, len(y.Content)
	for i, item := range y.Content {
		// Not put, which takes a null for nothing said: here it would become an element of defaults.
		s.putMapping(join(key, strconv.Itoa(i)), n.element, resolve(item), at.of(item))
	}
}

func (s *settings) putMapping(key string, n *node, y *yaml.Node, at origin) {
	if y.Kind != yaml.MappingNode {
		s.wrong(key, written(y), "a mapping with "+oneOf("or", n.names()), at)
		return
	}
	s.mappings[key] = at
	// What is merged in with << comes first, as the mapping's own keys replace it.
	for i := 0; i < len(y.Content); i += 2 {
		if y.Content[i].ShortTag() == "!!merge" {
			merged := []*yaml.Node{y.Content[i+1]}
			if list := resolve(merged[0]); list.Kind == yaml.SequenceNode {
				merged = slices.Clone(list.Content)
				slices.Reverse(merged) // the first of them counts most
			}
			for _, m := range merged {
				s.putMapping(key, n, resolve(m), at.of(m))
			}
		}
	}
	for i := 0; i < len(y.Content); i += 2 {
		name, value := y.Content[i], y.Content[i+1]
		if name.ShortTag() == "!!merge" {
			continue
		}
		child := n.child(name.Value)
		if child == nil || name.Kind != yaml.ScalarNode {
			s.unknown(n, key, name.Value, written(resolve(value)), at.of(name))
			continue
		}
		s.put(join(key, child.name), child, value, at.of(name))
	}
}

// of is the line of y in the same source.
func (at origin) of(y *yaml.Node) origin {
	if at.line > 0 {
		at.line = y.Line
	}
	return at
}

// forget takes back a key and all below it.
func (s *settings) forget(key string) {
	for k := range s.values {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(s.values, k)
		}
	}
	for k := range s.mappings {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(s.mappings, k)
		}
	}
	delete(s.lengths, key)
}

// says tells whether there is a value below key.
func (s *settings) says(key string) bool {
	for k := range s.values {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// nested is the values as a tree of maps and lists. What has no value below it is not there, but for the elements of lists.
func (s *settings) nested() map[string]any { return s.mapping("", s.root) }

func (s *settings) mapping(key string, n *node) map[string]any {
	mapping := map[string]any{}
	for _, c := range n.children {
		key := join(key, c.name)
		switch {
		case c.isValue():
			if said, ok := s.values[key]; ok {
				mapping[c.name] = said.value
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

// wrong notes a value that can't be, in the wrong place, or of an unknown key. None is shown that may be a secret.
func (s *settings) wrong(key, value, want string, at origin) {
	if secretive.MatchString(key) {
		value = notShown
	}
	s.problems = append(s.problems, Problem{schemas.Problem{Key: key, Value: value, Want: want}, at.source, at.line})
}

// secretive are keys and variables that hold a secret, that it is below, or that may be meant for one and are misspelt.
var secretive = regexp.MustCompile(`(?i)pas+w|phrase|secret|sasl|^security$`)

const notShown = "(not shown)"

// unknown notes a name that is not below n, which is the place of key.
func (s *settings) unknown(n *node, key, name, value string, at origin) {
	want := "one of the keys " + oneOf("or", n.names())
	if n.isValue() {
		want = "no key below " + key
	} else if meant := n.meant(name, s.root); meant != "" {
		want = fmt.Sprintf("a known key; did you mean %s?", meant)
	}
	s.wrong(join(key, quoted(name)), value, want, at)
}

// impossible notes a value that the code it sets refuses, as it was written where it was said. A key that is wrong already
// has its default now, which is nobody's fault.
func (s *settings) impossible(p schemas.Problem) {
	if slices.ContainsFunc(s.problems, func(known Problem) bool { return known.Key == p.Key }) {
		return
	}
	at := origin{source: s.path}
	if said, ok := s.values[p.Key]; ok {
		at, p.Value = said.origin, said.written
	} else if mapping, ok := s.mappings[parent(p.Key)]; ok {
		at = mapping
	}
	s.problems = append(s.problems, Problem{p, at.source, at.line})
}

func parent(key string) string { return key[:max(0, strings.LastIndexByte(key, '.'))] }

// failure is all problems in the order of their lines, or nil.
func (s *settings) failure() error {
	if len(s.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		if a.Source != b.Source {
			return 0
		}
		return cmp.Compare(a.Line, b.Line)
	})
	return &Error{s.problems}
}

const longest = 80 // letters of a value that a message shows

// written is a value as a message shows it: a scalar as it was written, of the others what they are.
func written(y *yaml.Node) string {
	switch y.Kind {
	case yaml.SequenceNode:
		items := make([]string, 0, len(y.Content))
		for _, item := range y.Content {
			if item = resolve(item); item.Kind != yaml.ScalarNode {
				return "a list"
			}
			items = append(items, item.Value)
		}
		return quoted("[" + strings.Join(items, ", ") + "]")
	case yaml.MappingNode:
		return "a mapping"
	}
	if isNull(y) {
		return "null"
	}
	if y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return strconv.Quote(shortened(y.Value))
	}
	return quoted(y.Value)
}

// quoted is text that fits in a line of a message: in quotes if it is empty or has other than visible letters.
func quoted(text string) string {
	text = shortened(text)
	if q := strconv.Quote(text); text == "" || strings.TrimSpace(text) != text || q != `"`+text+`"` {
		return q
	}
	return text
}

func shortened(text string) string {
	if letters := []rune(text); len(letters) > longest {
		return string(letters[:longest]) + "…"
	}
	return text
}

// oneOf is a list of names as a sentence has it.
func oneOf(conjunction string, names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return fmt.Sprintf("%s %s %s", strings.Join(names[:last], ", "), conjunction, names[last])
}
