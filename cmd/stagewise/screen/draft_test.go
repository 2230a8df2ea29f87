package screen

import (
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Whatever a column is called, YAML reads the name back; a number of a column is a number.
func TestScalars(t *testing.T) {
	for _, text := range []string{"a", "a b", "a: b", "a #b", "# a", "- a", "[a]", "{a}", "'a'", `"a"`, `a\b`, "true", "No", "null", "~", "1.5", "1e3", ".5",
		"0x1", "12", "007", "2026-01-02", "a\tb", "a\nb", "ä ö", "日本", "*a", "&a", "!a", "%a", "@a", "`a`", "a,b", "../a.csv", "a ", " a", "",
		".", "..", "=", "<<", "|", ">", "?", ":", "nan", ".inf", "\u0085", "\u007f", "y"} {
		var read struct{ A, B any }
		if err := yaml.Unmarshal([]byte("a: "+scalar(text)+"  # why\nb: ["+scalar(text)+", x]\n"), &read); err != nil {
			t.Errorf("%q as %s: %v", text, scalar(text), err)
			continue
		}
		got, isText := read.A.(string)
		if n, isNumber := read.A.(int); isNumber && text == "12" {
			got, isText = strconv.Itoa(n), true
		}
		if list, ok := read.B.([]any); !isText || got != text || !ok || len(list) != 2 {
			t.Errorf("%q as %s is read as %v and %v", text, scalar(text), read.A, read.B)
		}
	}
}

// The name of a pipeline is one that topics may have, and says which file it is of.
func TestName(t *testing.T) {
	for file, want := range map[string]string{"a/flowers.csv": "flowers", "x.csv.gz": "x", "my table (2).parquet": "my-table-2", "..": "table",
		"日本.csv": "table", "a.b.jsonl": "a.b", "folder/": "folder", strings.Repeat("a", 300) + ".csv": strings.Repeat("a", 60)} {
		if got := DraftName(file); got != want {
			t.Errorf("%s: %s, expected %s", file, got, want)
		}
	}
}

// A comment stays on its line, whatever a column has in it.
func TestComments(t *testing.T) {
	var l lines
	l.add("a: 1", "one\ntwo: 3")
	l.add("", "three\nfour: 5")
	var read map[string]any
	if err := yaml.Unmarshal([]byte(l.String()), &read); err != nil || len(read) != 1 {
		t.Errorf("%v, %v of\n%s", read, err, l.String())
	}
}
