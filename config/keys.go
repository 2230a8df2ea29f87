package config

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

// A node is a place in the tree of keys, which mirrors the fields of Config. It is a mapping if it has children, a list of
// mappings if it has an element, and else a value.
type node struct {
	name     string
	typ      reflect.Type // of a value
	children []*node
	element  *node
	isNone   bool // null is the empty text here, which stands for none, and not the default
	single   bool // of a list: one value needs no brackets
	split    bool // of a list: nor do several, with commas between them
	isPath   bool // a file, or a list of files: the configuration file has paths relative to its own folder
}

// tree returns the root of the tree of keys.
func tree() *node { return grow("", reflect.TypeFor[Config]()) }

func grow(name string, t reflect.Type) *node {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isValue(t):
		return &node{name: name, typ: t}
	case t.Kind() == reflect.Slice:
		return &node{name: name, element: grow("", t.Elem())}
	}
	n := &node{name: name}
	for _, field := range keysOf(t) {
		child := grow(option.KeyOf(field), field.Type)
		child.isNone, child.isPath = field.Tag.Get("null") == "none", isPath(field)
		child.split = field.Tag.Get("single") == "split"
		child.single = child.isPath || child.split || field.Tag.Get("single") == "true"
		n.children = append(n.children, child)
	}
	return n
}

// isValue reports whether a field of this type is the value of one key: it has no fields, or parses itself.
func isValue(t reflect.Type) bool {
	if t.Kind() == reflect.Slice && !isValue(t.Elem()) {
		return false
	}
	pointer := reflect.PointerTo(t)
	return t.Kind() != reflect.Struct || t == reflect.TypeFor[kafkalog.Secret]() ||
		pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// keysOf returns the fields of a struct that are keys. Those of an embedded struct are on the same level.
func keysOf(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(t) {
		if field.IsExported() && !field.Anonymous && option.KeyOf(field) != "-" {
			fields = append(fields, field)
		}
	}
	return fields
}

// isPath reports whether a field is the name of a file, or a list of them.
func isPath(field reflect.StructField) bool { return field.Tag.Get("path") == "file" }

func (n *node) isValue() bool { return n.typ != nil }

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// at returns the node of a key below n, or nil.
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

// walk visits n and every node below it with its full key, in which * stands for the number of an element of a list.
func (n *node) walk(key string, visit func(key string, n *node)) {
	visit(key, n)
	if n.element != nil {
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

// names returns the names of n's children.
func (n *node) names() []string {
	names := make([]string, len(n.children))
	for i, c := range n.children {
		names[i] = c.name
	}
	return names
}

// suggest returns the full key that was probably meant by name below n, whose own key is given: the child with the nearest
// spelling, or else the only key elsewhere with exactly this name. It returns "" if there is neither.
func (n *node) suggest(key, name string, root *node) string {
	if near := option.Nearest(name, n.names()); near != "" {
		return join(key, near)
	}
	var elsewhere []string
	root.walk("", func(key string, other *node) {
		if other.name != "" && other.name == strings.ToLower(name) {
			elsewhere = append(elsewhere, key)
		}
	})
	if len(elsewhere) == 1 {
		return elsewhere[0]
	}
	return ""
}
