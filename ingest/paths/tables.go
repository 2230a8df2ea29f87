package paths

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
)

// Kind says what a file in a folder is, by its name.
type Kind struct {
	IsTable bool // it is a table, or a part of one
	HasPath bool // the names of its folders may have values of columns, which its format takes
}

// Tables returns the files of tables in a folder, sorted, as Spark and others write a table in parts; none if it has
// images. Names that begin with a dot or an underscore, as _SUCCESS does, are left out. values are those of columns
// that the names of folders have, such as kind=iris.
func Tables(folder string, kindOf func(name string) Kind) (tables []string, values map[string][]input.Partition, err error) {
	images := false
	err = input.WalkFiles(os.DirFS(folder), func(path string, _ fs.FileInfo) error {
		name := strings.ToLower(filepath.Base(path))
		switch {
		case strings.HasPrefix(name, "_") || strings.HasPrefix(name, "."):
		case slices.Contains([]string{".png", ".jpg", ".jpeg"}, filepath.Ext(name)):
			images = true
		case kindOf(name).IsTable:
			tables = append(tables, filepath.Join(folder, filepath.FromSlash(path)))
		}
		return nil
	})
	if err != nil || images || len(tables) == 0 {
		return nil, nil, err
	}
	slices.Sort(tables)
	values, err = valuesInPaths(folder, tables, kindOf)
	return tables, values, err
}
