package ingest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas"
)

// Every option has a key, in the order of the options, with a description in one line of Markdown.
func TestKeys(t *testing.T) {
	options, keys := names(reflect.TypeFor[Options](), ""), Keys()
	if len(keys) != len(options) {
		t.Fatalf("%d keys, %d options", len(keys), len(options))
	}
	for i, key := range keys {
		if want := options[i]; key.Name != want {
			t.Errorf("key %d: %s, expected %s", i, key.Name, want)
		}
		if key.Meaning == "" || strings.ContainsAny(key.Meaning, "\n|") || strings.HasPrefix(key.Meaning, ":") ||
			strings.Contains(key.Meaning, "()") {
			t.Errorf("%s: %q", key.Name, key.Meaning)
		}
	}
}

// names returns the keys of a struct; those of a nested struct follow its own.
func names(options reflect.Type, before string) (keys []string) {
	for i := range options.NumField() {
		field := options.Field(i)
		name := before + field.Tag.Get("yaml")
		switch {
		case !field.IsExported():
		case field.Anonymous:
			keys = append(keys, names(field.Type, before)...)
		case field.Type == reflect.TypeFor[schemas.ClassWeight](), field.Type == reflect.TypeFor[layout.Missing](): // a single value
			keys = append(keys, name)
		case field.Type.Kind() == reflect.Struct:
			keys = append(keys, names(field.Type, name+".")...)
		default:
			keys = append(keys, name)
		}
	}
	return keys
}
