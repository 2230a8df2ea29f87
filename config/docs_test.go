package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

var documented = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| .+ \\|$")

// The table of docs/configuration.md has every key, in the order of the fields, with its type and default.
func TestDocumentation(t *testing.T) {
	content, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, row := range documented.FindAllStringSubmatch(string(content), -1) {
		have = append(have, strings.Join(row[1:], " | "))
	}
	names := [...]string{kindText: "text", kindTexts: "list", kindWhole: "whole number", kindNatural: "whole number",
		kindReal: "number", kindFlag: "flag", kindSize: "size", kindColumn: "column", kindSecret: "secret"}
	full := Defaults()
	full.Stages = []Stage{DefaultStage()}
	full.Stages[0].Stop = DefaultStop()
	var want []string
	tree().walk("", func(key string, value *node) {
		want = append(want, fmt.Sprintf("%s | %s | %s", key, names[value.kind], defaultOf(reflect.ValueOf(full), key)))
	})
	for _, row := range want {
		if !slices.Contains(have, row) {
			t.Errorf("not documented: %s", row)
		}
	}
	for _, row := range have {
		if !slices.Contains(want, row) {
			t.Errorf("documented, but not so: %s", row)
		}
	}
}

// defaultOf is the default of a key as the table writes it.
func defaultOf(v reflect.Value, key string) string {
	if key == "name" {
		return "required"
	}
	for name := range strings.SplitSeq(key, ".") {
		if v = reflect.Indirect(v); name == "*" {
			v = v.Index(0)
			continue
		}
		for _, field := range reflect.VisibleFields(v.Type()) {
			if field.IsExported() && !field.Anonymous && keyOf(field) == name {
				v = v.FieldByIndex(field.Index)
				break
			}
		}
	}
	switch value := v.Interface().(type) {
	case Bytes:
		return fmt.Sprintf("`%d`", int64(value))
	case []string:
		return fmt.Sprintf("`%v`", value)
	case *bool, kafkalog.Secret:
		return "none"
	}
	if v.Kind() == reflect.String && v.Len() == 0 {
		return "none"
	}
	return fmt.Sprintf("`%v`", v.Interface())
}
