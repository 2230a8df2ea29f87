package archive

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
)

// pattern is a compiled pattern of paths.
type pattern struct {
	folder string   // the part of the path before the first name with *, ? or [
	names  []string // patterns of the names below it; none: the folder names a file, or a directory with all files in it
}

func compile(text string) (p pattern, err error) {
	names := strings.Split(strings.TrimSuffix(text, "/"), "/")
	literal := slices.IndexFunc(names, input.IsPattern)
	if literal < 0 {
		literal = len(names)
	}
	p = pattern{folder: strings.Join(names[:literal], "/"), names: names[literal:]}
	switch {
	case literal == 0:
		p.folder = "."
	case p.folder == "":
		p.folder = "/"
	}
	for _, name := range p.names {
		if _, err := path.Match(name, ""); err != nil {
			return p, input.WholeFile(text, errors.New("not a valid pattern: [ without ]"))
		}
	}
	return p, nil
}

// matches reports whether the path of a file below the folder matches.
func (p pattern) matches(relative string) bool {
	switch {
	case len(p.names) == 0:
		return !input.Hidden(relative)
	case relative == "":
		return false
	}
	return match(p.names, strings.Split(relative, "/"))
}

func match(pattern, names []string) bool {
	if len(pattern) == 0 || len(names) == 0 {
		return len(pattern) == len(names)
	}
	if pattern[0] == "**" { // any number of directories, or, at the end, all files in them
		if len(pattern) > 1 && match(pattern[1:], names) {
			return true
		}
		return !input.Hidden(names[0]) && (len(pattern) == 1 && len(names) == 1 || match(pattern, names[1:]))
	}
	matches, _ := path.Match(pattern[0], names[0])
	return matches && (!input.Hidden(names[0]) || pattern[0][0] == names[0][0]) && match(pattern[1:], names[1:])
}
