package ingest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
)

// withFiles returns the options with the files that the names stand for.
func (o Options) withFiles() (_ Options, err error) {
	o.parts = map[string][]input.Partition{}
	part := func(table string, values []input.Partition) { o.parts[table] = values }
	if o.Train, err = filesOf(o.Train, part); err != nil {
		return o, err
	}
	o.Test, err = filesOf(o.Test, part)
	return o, err
}

// isPart reports whether a file is one of the tables in a folder.
func (o Options) isPart(file string) bool {
	_, is := o.parts[file]
	return is
}

// tablesIn returns the files of tables in a folder, sorted, as Spark and others write a table in parts; none if it has
// images. Names that begin with a dot or an underscore, as _SUCCESS does, are left out. values are those of columns
// that the names of folders have, such as kind=iris.
func tablesIn(folder string) (tables []string, values map[string][]input.Partition, err error) {
	images := false
	err = input.WalkFiles(os.DirFS(folder), func(path string, _ fs.FileInfo) error {
		name := strings.ToLower(filepath.Base(path))
		switch {
		case strings.HasPrefix(name, "_") || strings.HasPrefix(name, "."):
		case slices.Contains([]string{".png", ".jpg", ".jpeg"}, filepath.Ext(name)):
			images = true
		case isTable(name):
			tables = append(tables, filepath.Join(folder, filepath.FromSlash(path)))
		}
		return nil
	})
	if err != nil || images || len(tables) == 0 {
		return nil, nil, err
	}
	slices.Sort(tables)
	values, err = valuesInPaths(folder, tables)
	return tables, values, err
}

// isTable reports whether a file in a folder is a table, or a part of one, by its name.
func isTable(name string) bool {
	f, told := Options{}.formatByName(name)
	if !told {
		for _, compressed := range []string{".gz", ".bz2", ".zst"} {
			name = strings.TrimSuffix(name, compressed)
		}
		return strings.HasSuffix(name, ".json") // lines of it, as Spark calls them: the content tells
	}
	return !f.ReadsFolders && f.Files == 1
}
