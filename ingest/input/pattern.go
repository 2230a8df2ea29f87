package input

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

// IsPattern reports whether a name may match other files than the one with this name.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Glob is filepath.Glob, except that an exact match takes precedence, in each element of the path. So brackets in a directory name
// don't break a pattern for files in it. It is an error if a match is in a directory of a table format that keeps files of earlier
// states. A hidden name matches only a pattern that starts with the same character.
func Glob(name string) ([]string, error) {
	if !IsPattern(name) {
		return []string{name}, nil
	}
	if _, err := os.Lstat(name); err == nil {
		return []string{name}, nil
	}
	folder, pattern := filepath.Split(name)
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, WholeFile(name, errors.New("no such file, nor a valid pattern: [ without ]"))
	}
	folders := []string{folder}
	if IsPattern(folder) {
		var err error
		if folders, err = Glob(filepath.Clean(folder)); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, folder := range folders {
		entries, err := os.ReadDir(cmp.Or(folder, "."))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		} else if err != nil {
			return nil, WholeFile(name, err)
		}
		for _, e := range entries {
			hidden := Hidden(e.Name()) && pattern[0] != e.Name()[0]
			if matches, _ := filepath.Match(pattern, e.Name()); matches && !hidden {
				found = append(found, filepath.Join(folder, e.Name()))
			}
		}
	}
	slices.Sort(found)
	lakes := lakes{}
	for _, file := range found {
		if err := lakes.check(filepath.Dir(file)); err != nil {
			return nil, err
		}
	}
	return found, nil
}
