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
)

// Files returns the files that names stand for, in the order of the names. A
// name with *, ? or [ in it is a pattern, as filepath.Match has it, and stands
// for the files that match it, sorted. But a file that has exactly this name
// wins. A pattern that no file matches is a *FileError. As in a shell, * and ?
// don't match a dot at the beginning.
func Files(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		found, err := glob(name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, wholeFile(name, errors.New("no file matches this pattern"))
		}
		files = append(files, found...)
	}
	return files, nil
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
		return nil, wholeFile(name, errors.New("no such file, and no pattern either: [ without ]"))
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
			return nil, wholeFile(name, err)
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
