package config

import (
	"encoding"
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

// The keys are the fields of Config and of the structs below it. Tags of a field:
//
//   - path:"file" is a file, or a list of files: the configuration file has paths relative to its own folder
//   - single:"split" is a list that needs no brackets around values with commas between them. Other lists of texts need none in
//     variables and settings. A single value never needs brackets.
//   - null:"none" is a text for which null means the empty text, not the default

// behind returns the type that a pointer points to, and any other type unchanged.
func behind(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
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

// isPath reports whether the tag of a field says that it is a file, or a list of files.
func isPath(tag reflect.StructTag) bool { return tag.Get("path") == "file" }

// isList reports whether a type is a list of mappings.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice && !isValue(t) }

// keysOf returns the fields that are the keys of a mapping; none for a value or a list. Those of an embedded struct are on the same level.
func keysOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	if isValue(t) || isList(t) {
		return func(func(string, reflect.StructField) bool) {}
	}
	return option.KeysOf(t)
}

// namesOf returns the names of the keys of a mapping.
func namesOf(t reflect.Type) (names []string) {
	for name := range keysOf(t) {
		names = append(names, name)
	}
	return names
}

// fieldAt returns the field of a key below a type, regardless of the numbers of list elements in it.
func fieldAt(t reflect.Type, key string) (field reflect.StructField, ok bool) {
	for name := range strings.SplitSeq(key, ".") {
		if isList(t) {
			field = reflect.StructField{Type: t.Elem()}
		} else if field, ok = maps.Collect(keysOf(t))[name]; !ok {
			return field, false
		}
		t = behind(field.Type)
	}
	return field, true
}

// walk visits a key of a type and every key below it, in which * stands for the number of an element of a list.
func walk(key string, t reflect.Type, visit func(key string, t reflect.Type)) {
	t = behind(t)
	visit(key, t)
	if isList(t) {
		walk(option.Join(key, "*"), t.Elem(), visit)
	}
	for name, field := range keysOf(t) {
		walk(option.Join(key, name), field.Type, visit)
	}
}

// suggest returns the full key that was probably meant by name in the mapping of a key: the key in it with the nearest
// spelling, or else the only key elsewhere with exactly this name. It returns "" if there is neither.
func suggest(key string, t reflect.Type, name string) string {
	if near := option.Nearest(name, namesOf(t)); near != "" {
		return option.Join(key, near)
	}
	var elsewhere []string
	walk("", reflect.TypeFor[Config](), func(key string, _ reflect.Type) {
		if name != "" && key[strings.LastIndexByte(key, '.')+1:] == strings.ToLower(name) {
			elsewhere = append(elsewhere, key)
		}
	})
	if len(elsewhere) == 1 {
		return elsewhere[0]
	}
	return ""
}
