package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// A node is a place in the tree of keys, which is the tree of Config's fields: a mapping if it has children, a list if it
// has an element, else a value.
type node struct {
	name     string
	children []*node
	element  *node
	kind     kind // of a value
}

// tree is the tree of keys.
func tree() *node { return grow("", reflect.TypeFor[Config]()) }

func grow(name string, t reflect.Type) *node {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if k, ok := kindOf(t); ok {
		return &node{name: name, kind: k}
	}
	if t.Kind() == reflect.Slice {
		return &node{name: name, element: grow("", t.Elem())}
	}
	n := &node{name: name}
	for _, field := range reflect.VisibleFields(t) {
		// The fields of an embedded struct are visible as well, and are what counts of it.
		if field.IsExported() && !field.Anonymous {
			n.children = append(n.children, grow(keyOf(field), field.Type))
		}
	}
	return n
}

// keyOf is how mapstructure calls a field.
func keyOf(field reflect.StructField) string {
	return cmp.Or(field.Tag.Get("mapstructure"), strings.ToLower(field.Name))
}

func (n *node) isValue() bool { return n.children == nil && n.element == nil }

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// at is the place of a full key, or nil.
func (n *node) at(key string) *node {
	for name := range strings.SplitSeq(key, ".") {
		if n.element != nil {
			n = n.element
		} else if n = n.child(name); n == nil {
			return nil
		}
	}
	return n
}

// walk visits every value below n with its full key, in which * stands for the number of an element of a list.
func (n *node) walk(key string, visit func(key string, value *node)) {
	switch {
	case n.isValue():
		visit(key, n)
	case n.element != nil:
		n.element.walk(join(key, "*"), visit)
	}
	for _, c := range n.children {
		c.walk(join(key, c.name), visit)
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// names are the children's.
func (n *node) names() []string {
	names := make([]string, len(n.children))
	for i, c := range n.children {
		names[i] = c.name
	}
	return names
}

// meant is the key that somebody who wrote name below n had in mind, or "": the nearest spelling there, or the full key
// of the one value that has this very name elsewhere.
func (n *node) meant(name string, root *node) string {
	if near := nearest(name, n.names()); near != "" {
		return near
	}
	var elsewhere []string
	root.walk("", func(key string, value *node) {
		if value.name == strings.ToLower(name) {
			elsewhere = append(elsewhere, key)
		}
	})
	if len(elsewhere) == 1 {
		return elsewhere[0]
	}
	return ""
}

// nearest is the candidate with the fewest edits from word, if they are at most a third of its letters. Case and hyphens
// count as nothing.
func nearest(word string, candidates []string) string {
	if len(candidates) == 0 || len(word) > 100 {
		return ""
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	edits := func(candidate string) int { return levenshtein.ComputeDistance(plain(word), plain(candidate)) }
	best := slices.MinFunc(candidates, func(a, b string) int { return edits(a) - edits(b) })
	if edits(best) > max(1, len(best)/3) {
		return ""
	}
	return best
}
