package archive

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stagewise/stagewise/ingest/input"
)

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
		return nil, input.WholeFile(path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("expected a file")
	}
	if err != nil {
		_ = file.Close()
		return nil, input.WholeFile(path, err)
	}
	return localFile{file, info.Size()}, nil
}

func (local) above(path string) (folders []string, err error) {
	at, err := filepath.Abs(path)
	for ; err == nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		folders = append(folders, filepath.ToSlash(at))
	}
	return folders, err
}

type localFile struct {
	*os.File
	size int64
}

func (f localFile) Size() int64 { return f.size }
