package paths

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
)

// Kind is the kind of a file in a directory, by its name.
type Kind struct {
	IsTable bool // it is a table, or a part of one
	HasPath bool // its format supports partition values from directory names
}

// Tables returns the table files in a directory, sorted, as written in parts by Spark and others; none if it has images.
// Names that start with a dot or an underscore, such as _SUCCESS, are skipped. values are partition values from directory
// names, such as kind=iris.
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
