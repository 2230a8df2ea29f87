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
	// Below returns the file with a path, or, for a directory, the files below it in a stable order, including hidden ones. It
	// returns no file if the path does not exist. It lists directories as the iteration proceeds, and stops after an error.
	Below(ctx context.Context, path string) iter.Seq2[string, error]
	// Open opens a file. Reads fail when the context ends.
	Open(ctx context.Context, path string) (openFile, error)
	// above returns the directories above a path, and the path itself.
	above(path string) ([]string, error)
}

// openFile is an open file. It is safe for concurrent use.
type openFile interface {
	io.ReaderAt
	io.Closer
	Size() int64 // in bytes
}

// content opens a file, and its content, decompressed. Closing the content closes the file.
func (s store) content(ctx context.Context, path string) (file openFile, content *input.Content, err error) {
	if file, err = s.Open(ctx, path); err != nil {
		return nil, nil, err
	}
	if content, err = input.New(ctx, path, contentOf(file)); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, content, nil
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

// checkAbove returns an error if a directory, or one above it, is a table of a format that keeps files of earlier states.
func (s store) checkAbove(ctx context.Context, folder string) error {
	above, err := s.above(folder)
	if err != nil {
		return err
	}
	for _, at := range above {
		for _, marker := range input.LakeFolders() {
			for file, err := range s.Below(ctx, at+"/"+marker) {
				if errors.Is(err, fs.ErrPermission) { // permission to read files does not include listing the directories above
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
