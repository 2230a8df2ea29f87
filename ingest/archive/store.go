package archive

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/stagewise/stagewise/ingest/input"
)

// store has the files of this machine, of a bucket, or of a web server. It is safe for concurrent use. Create it with openStore.
type store struct{ files }

// files are the files of one place. Their paths are like patterns: paths of this machine with slashes, or URLs.
type files interface {
	// Below returns the file with a path, or, for a directory, the files below it in a stable order, including hidden ones. It
	// returns no file if the path does not exist. It lists directories as the iteration proceeds, and stops after an error.
	Below(ctx context.Context, path string) iter.Seq2[string, error]
	// Open opens a file. Reads fail when the context ends.
	Open(ctx context.Context, path string) (openFile, error)
	// checkAbove returns an error if a directory, or one above it, is a table of a format that keeps files of earlier states.
	checkAbove(ctx context.Context, folder string) error
}

// openFile is an open file, whose Read begins at its start. ReadAt is safe for concurrent use.
type openFile struct {
	*io.SectionReader
	io.Closer
}

// content opens a file, and its content, decompressed. Closing the content closes the file.
func (s store) content(ctx context.Context, path string) (file openFile, content *input.Content, err error) {
	if file, err = s.Open(ctx, path); err != nil {
		return file, nil, err
	}
	if content, err = input.New(ctx, path, file); err != nil {
		return file, nil, errors.Join(err, file.Close())
	}
	return file, content, nil
}

// List returns the files that match a pattern, in the same order each time: see openStore for patterns. It is an error if one of them is in
// a table of a format that also keeps files of earlier states. List stops after an error.
func (s store) List(ctx context.Context, of string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		pattern, err := compile(of)
		if err == nil {
			err = s.checkAbove(ctx, pattern.folder)
		}
		if err != nil {
			yield("", err)
			return
		}
		for file, err := range s.Below(ctx, pattern.folder) {
			relative := strings.TrimPrefix(strings.TrimPrefix(file, pattern.folder), "/")
			if err == nil {
				err = input.CheckLake(pattern.folder, relative)
			}
			if err != nil {
				yield("", err)
				return
			}
			if pattern.matches(relative) && !yield(file, nil) {
				return
			}
		}
	}
}

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

// local has the files of this machine, including those of a mounted bucket.
type local struct{}

func (local) Below(ctx context.Context, path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			return
		case err == nil && info.Mode().IsRegular():
			yield(path, nil)
			return
		}
		for file, err := range input.Walk(os.DirFS(path), true) {
			if err = cmp.Or(ctx.Err(), err); err != nil {
				yield("", input.WholeFile(strings.TrimSuffix(path, "/")+"/"+file.Path, err))
				return
			}
			if !yield(strings.TrimSuffix(path, "/")+"/"+file.Path, nil) {
				return
			}
		}
	}
}

func (local) Open(_ context.Context, path string) (openFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return openFile{}, input.WholeFile(path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("expected a file")
	}
	if err != nil {
		_ = file.Close()
		return openFile{}, input.WholeFile(path, err)
	}
	return openFile{io.NewSectionReader(file, 0, info.Size()), file}, nil
}

func (local) checkAbove(_ context.Context, folder string) error { return input.Lakes{}.Check(folder) }
