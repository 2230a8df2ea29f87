package input

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is the kind of a file in a directory, by its name.
type Kind struct {
	IsTable bool // it is a table, or a part of one
	HasPath bool // its format supports partition values from directory names
}

// Tables returns the table files in a directory, sorted, as written in parts by Spark and others; none if it has images.
// values are partition values from directory names, such as kind=iris. It is an error if the directory is of a table format that keeps
// files of earlier states, or has one in it.
func Tables(folder string, kindOf func(name string) Kind) (tables []string, values map[string][]Partition, err error) {
	lakes := lakes{}
	if err := lakes.check(folder); err != nil {
		return nil, nil, err
	}
	images := false
	for file, err := range Walk(os.DirFS(folder), false) {
		name := strings.ToLower(filepath.Base(file.Path))
		switch {
		case err != nil:
			err = WholeFile(filepath.Join(folder, filepath.FromSlash(file.Path)), err)
		case slices.Contains([]string{".png", ".jpg", ".jpeg"}, filepath.Ext(name)):
			images = true
		case kindOf(name).IsTable:
			tables = append(tables, filepath.Join(folder, filepath.FromSlash(file.Path)))
			err = lakes.check(filepath.Dir(tables[len(tables)-1]))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if images || len(tables) == 0 {
		return nil, nil, nil
	}
	slices.Sort(tables)
	values, err = valuesInPaths(folder, tables, kindOf)
	return tables, values, err
}
