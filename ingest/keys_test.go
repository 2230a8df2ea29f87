package ingest

import (
	"reflect"
	"strings"
	"testing"
)

// Every option has a key, in the order of the options, that says what it does in
// one line of Markdown.
func TestKeys(t *testing.T) {
	options, keys := reflect.TypeFor[Options](), Keys()
	if len(keys) != options.NumField() {
		t.Fatalf("%d keys, %d options", len(keys), options.NumField())
	}
	for i, key := range keys {
		if want := options.Field(i).Tag.Get("yaml"); key.Name != want {
			t.Errorf("key %d: %s, expected %s", i, key.Name, want)
		}
		if key.Meaning == "" || strings.ContainsAny(key.Meaning, "\n|") || strings.HasPrefix(key.Meaning, ":") || strings.Contains(key.Meaning, "()") {
			t.Errorf("%s: %q", key.Name, key.Meaning)
		}
	}
}
