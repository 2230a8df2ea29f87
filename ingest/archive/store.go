package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
)

// store has the files of this machine, of a bucket, or of a web server. It is safe for concurrent use. Create it with openStore.
type store struct{ files }

// files are the files of one place. Their paths are like patterns: paths of this machine with slashes, or URLs.
type files interface {
	// Below returns the file with a path, or those below it if it is a directory, hidden ones too, in the same order each time. It
	// returns no file if there is none. It lists directories as its user goes on, and stops after an error.
	Below(ctx context.Context, path string) iter.Seq2[string, error]
	// Open opens a file. Reads fail when the context ends.
	Open(ctx context.Context, path string) (openFile, error)
	// above returns the directories that have a path in them, and the path itself.
	above(path string) ([]string, error)
}

// openFile is an open file. It is safe for concurrent use.
type openFile interface {
	io.ReaderAt
	io.Closer
	Size() int64 // in bytes
}

// contentOf reads a file from its beginning. Closing the content closes the file.
func contentOf(f openFile) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, f.Size()), f}
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

// checkAbove returns an error if a directory, or one that it is in, is a table of a format that keeps files of earlier states.
func (s store) checkAbove(ctx context.Context, folder string) error {
	above, err := s.above(folder)
	if err != nil {
		return err
	}
	for _, at := range above {
		for _, marker := range input.LakeFolders() {
			for file, err := range s.Below(ctx, at+"/"+marker) {
				if errors.Is(err, fs.ErrPermission) { // who may read the files need not be allowed to list what is above them
					break
				}
				if err == nil {
					err = input.CheckLake(at, strings.TrimPrefix(file, at+"/"))
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
