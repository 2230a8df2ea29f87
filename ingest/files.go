package ingest

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stagewise/stagewise/ingest/input"
)

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
		found, err := glob(name)
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

// folderTables is tablesIn; there are none if the name is no folder's.
func folderTables(name string) (tables []string, values map[string][]input.Partition, err error) {
	if info, err := os.Stat(name); name == StandardInput || err != nil || !info.IsDir() {
		return nil, nil, nil
	}
	tables, values, err = tablesIn(name)
	if _, placed := errors.AsType[*input.Error](err); err != nil && !placed {
		err = input.WholeFile(name, err)
	}
	return tables, values, err
}

// isPattern reports whether a name may stand for other files than the one that
// is called so.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// glob is filepath.Glob, but what has exactly the name wins, in each folder of
// the path. So a folder's own brackets don't spoil the pattern of a file in it.
func glob(name string) ([]string, error) {
	if !isPattern(name) {
		return []string{name}, nil
	}
	if _, err := os.Lstat(name); err == nil {
		return []string{name}, nil
	}
	folder, pattern := filepath.Split(name)
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, input.WholeFile(name, errors.New("no such file, nor a valid pattern: [ without ]"))
	}
	folders := []string{folder}
	if isPattern(folder) {
		var err error
		if folders, err = glob(filepath.Clean(folder)); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, folder := range folders {
		entries, err := os.ReadDir(cmp.Or(folder, "."))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		} else if err != nil {
			return nil, input.WholeFile(name, err)
		}
		for _, e := range entries {
			hidden := strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(pattern, ".")
			if matches, _ := filepath.Match(pattern, e.Name()); matches && !hidden {
				found = append(found, filepath.Join(folder, e.Name()))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}
