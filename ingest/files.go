package ingest

import (
	"errors"
	"os"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/paths"
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

// Files returns the files that names stand for, in the order of the names. A
// name with *, ? or [ in it is a pattern, as filepath.Match has it, and stands
// for the files that match it, sorted. But a file that has exactly this name
// wins. A pattern that no file matches is a *input.Error. As in a shell, * and ?
// don't match a dot at the beginning. A folder stands for the tables in it, unless
// it has images.
func Files(names []string) ([]string, error) {
	return filesOf(names, func(string, []input.Partition) {})
}

// filesOf is Files, and calls part for each table that is in a folder, with what its path says.
func filesOf(names []string, part func(table string, values []input.Partition)) ([]string, error) {
	var files []string
	for _, name := range names {
		found, err := paths.Glob(name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, input.WholeFile(name, errors.New("no file matches this pattern"))
		}
		for _, file := range found {
			tables, values, err := folderTables(file)
			if err != nil {
				return nil, err
			}
			for _, table := range tables {
				part(table, values[table])
			}
			if len(tables) == 0 {
				tables = []string{file}
			}
			files = append(files, tables...)
		}
	}
	return files, nil
}

// folderTables is [paths.Tables]; there are none if the name is no folder's.
func folderTables(name string) (tables []string, values map[string][]input.Partition, err error) {
	if info, err := os.Stat(name); name == StandardInput || err != nil || !info.IsDir() {
		return nil, nil, nil
	}
	tables, values, err = paths.Tables(name, kindOf)
	if _, placed := errors.AsType[*input.Error](err); err != nil && !placed {
		err = input.WholeFile(name, err)
	}
	return tables, values, err
}

// kindOf says what a file in a folder is, by its name.
func kindOf(name string) paths.Kind {
	f, told := Options{}.formatByName(name)
	if !told {
		for _, compressed := range []string{".gz", ".bz2", ".zst"} {
			name = strings.TrimSuffix(name, compressed)
		}
		return paths.Kind{IsTable: strings.HasSuffix(name, ".json")} // lines of it, as Spark calls them: the content tells
	}
	return paths.Kind{IsTable: !f.ReadsFolders && f.Files == 1, HasPath: !f.IsText}
}
