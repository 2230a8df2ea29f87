package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A pattern is expanded to the matching files, sorted, unless a file has exactly this name.
func TestFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"b.csv", "a.csv", ".hidden.csv", "c[1].csv", "c1.csv", "[x]/2.csv", "[x]/1.csv", "y/1.csv", "q*.csv",
		"qq.csv"} {
		noError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		noError(t, os.WriteFile(name, nil, 0o644))
	}
	for names, want := range map[string]string{
		"none.csv":      "none.csv", // reported when it is opened
		"-":             "-",
		"b.csv a.csv":   "b.csv a.csv",
		"[ab].csv":      "a.csv b.csv",
		"y/1.csv ?.csv": "y/1.csv a.csv b.csv",
		".h*.csv":       ".hidden.csv",
		"c[1].csv":      "c[1].csv",
		"[x]/*.csv":     "[x]/1.csv [x]/2.csv",
		"*/1.csv":       "[x]/1.csv y/1.csv",
		"q*.csv":        "q*.csv",
		"./[y]/*":       "y/1.csv",
	} {
		got, err := Files(strings.Fields(names))
		if err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, %v; expected %s", names, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"*.txt":  "*.txt: no file matches this pattern",
		"no/*":   "no/*: no file matches this pattern",
		"a.csv*": "",
		"[a.csv": "[a.csv: no such file, nor a valid pattern: [ without ]",
	} {
		_, err := Files([]string{name})
		if got := errorText(err); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
