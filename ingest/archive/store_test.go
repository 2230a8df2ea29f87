package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// list returns the paths of the files that match a pattern, relative to a folder.
func list(t *testing.T, s store, folder, pattern string) (paths []string, err error) {
	t.Helper()
	for entry, err := range s.List(t.Context(), folder+"/"+pattern) {
		if err != nil {
			return nil, err
		}
		paths = append(paths, strings.TrimPrefix(entry.Path, folder+"/"))
		if int(entry.Size) != len(filepath.Base(entry.Path)) {
			t.Errorf("%s: %d bytes", entry.Path, entry.Size)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// places are files whose content is their name.
var places = []string{".tmp/a.avro", "_temporary/a.avro", "a.avro", "a.txt", "a/b/c.avro", "a/b/d.json", "a/b.avro", "a/_day=1/e.avro", "b/.e.crc", "b/e.avro"}

// patterns are patterns and the files that match them.
var patterns = map[string]string{
	"**":          "a.avro a.txt a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json b/e.avro",
	"":            "a.avro a.txt a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json b/e.avro",
	"a":           "a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json",
	"a/":          "a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json",
	"a/b.avro":    "a/b.avro",
	"**/*.avro":   "a.avro a/_day=1/e.avro a/b.avro a/b/c.avro b/e.avro",
	"*/*.avro":    "a/b.avro b/e.avro",
	"[ab]/?.avro": "a/b.avro b/e.avro",
	"a/**/c.*":    "a/b/c.avro",
	"**/b/**":     "a/b/c.avro a/b/d.json b/e.avro",
	"b/.*":        "b/.e.crc",
	"_*/**":       "_temporary/a.avro",
	"_temporary/": "_temporary/a.avro",
	"*.none":      "",
}

func TestPatterns(t *testing.T) {
	folder := t.TempDir()
	for _, file := range places {
		write(t, folder, file)
	}
	s := arrowtest.Must(openStore(folder+"/**", Options{}))(t)
	checkPatterns(t, s, folder)
	t.Chdir(folder)
	if got, err := list(t, s, ".", "a/b/*"); err != nil || !slices.Equal(got, []string{"a/b/c.avro", "a/b/d.json"}) {
		t.Error(got, err)
	}
}

func checkPatterns(t *testing.T, s store, folder string) {
	t.Helper()
	for pattern, want := range patterns {
		if got, err := list(t, s, folder, pattern); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, expected %s", pattern, got, err, want)
		}
	}
	if _, err := list(t, s, folder, "a[/*"); err == nil || !strings.Contains(err.Error(), "not a valid pattern") {
		t.Error(err)
	}
	f := arrowtest.Must(s.Open(t.Context(), folder+"/a/b.avro"))(t)
	content := make([]byte, f.Size())
	if n, err := f.ReadAt(content[2:], 2); string(content) != "\x00\x00avro" || n != 4 || err != nil {
		t.Errorf("%q, %v", content, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Open(t.Context(), folder+"/none"); err == nil || !strings.HasPrefix(err.Error(), folder+"/none: ") {
		t.Error(err)
	}
}

func write(t *testing.T, folder, file string) {
	t.Helper()
	name := filepath.Join(folder, file)
	arrowtest.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	arrowtest.NoError(t, os.WriteFile(name, []byte(filepath.Base(name)), 0o644))
}

// tables are files of tables, which no pattern lists, and the directory that the error names.
var tables = map[string]string{
	"sales/_delta_log/00000000000000000000.json": "sales: a table of Delta Lake, which also has files of earlier states: set examples.archive",
	"sales/.hoodie/hoodie.properties":            "sales: a table of Apache Hudi, which also has files of earlier states: write",
	"sales/metadata/v1.metadata.json":            "sales: a table of Apache Iceberg, which also has files of earlier states: set examples.archive",
}

// A file in a table is not listed, whether the pattern begins in the table, above it or below it, but the files that the log of a table
// names are.
func TestTablesAreNoFiles(t *testing.T) {
	for file, want := range tables {
		folder := t.TempDir()
		write(t, folder, file)
		write(t, folder, "sales/data/a.parquet")
		checkTable(t, store{local{}}, folder, file, want)
	}
	folder := t.TempDir()
	write(t, folder, "metadata/notes.json")
	if got, err := list(t, store{local{}}, folder, "**"); err != nil || len(got) != 1 {
		t.Error(got, err)
	}
}

func checkTable(t *testing.T, s store, folder, file, want string) {
	t.Helper()
	for _, pattern := range []string{"**", "sales/**", "sales", "sales/data", "sales/data/*.parquet", "sales/data/a.parquet"} {
		if _, err := list(t, s, folder, pattern); err == nil || !strings.HasPrefix(err.Error(), folder+"/"+want) {
			t.Errorf("%s: %v, expected %s", pattern, err, want)
		}
	}
	for entry, err := range s.Below(t.Context(), folder+"/"+filepath.ToSlash(filepath.Dir(file))) {
		if err != nil || entry.Path != folder+"/"+file {
			t.Error(entry, err)
		}
	}
}

// A user that needs the first file only does not wait for the listing of the others.
func TestFirstOfManyFiles(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "a/a.avro")
	write(t, folder, "b/b.avro")
	s := arrowtest.Must(openStore(folder, Options{}))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var found []string
	for entry, err := range s.List(ctx, folder) {
		found = append(found, fmt.Sprintf("%s %v", strings.TrimPrefix(entry.Path, folder), err != nil))
		stop() // what was not listed yet fails
	}
	if !slices.Equal(found, []string{"/a/a.avro false", " true"}) {
		t.Errorf("found %q, expected one file and an error", found)
	}
}
