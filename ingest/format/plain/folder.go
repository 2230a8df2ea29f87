package plain

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/stagewise/stagewise/ingest/input"
)

// packedFolder reads a directory as the tar archive of its files, with names and contents only. So a directory is read,
// digested and checked for changes like a file.
type packedFolder struct {
	fs.FS
	files   []string // remaining files, as paths relative to the directory
	archive *tar.Writer
	ready   bytes.Buffer // unread part of the archive
	ended   bool
}

// OpenFolder opens a directory. Its files are in the order of their names, or, if mixed is set, in a pseudorandom order
// derived from the names: otherwise classes in directories of their own would follow one another.
func OpenFolder(name string, mixed bool) (*packedFolder, error) {
	f := &packedFolder{FS: os.DirFS(name)}
	err := input.WalkFiles(f.FS, func(path string, _ fs.FileInfo) error {
		f.files = append(f.files, path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(f.files) == 0 {
		return nil, errors.New("an empty folder: expected PNG or JPEG files, in a folder for each class")
	}
	if mixed {
		slices.SortFunc(f.files, func(a, b string) int {
			first, second := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
			return bytes.Compare(first[:], second[:])
		})
	}
	f.archive = tar.NewWriter(&f.ready)
	return f, nil
}

// Read implements io.Reader.
func (f *packedFolder) Read(p []byte) (int, error) {
	for f.ready.Len() == 0 {
		if f.ended {
			return 0, io.EOF
		}
		if err := f.pack(); err != nil {
			return 0, err
		}
	}
	return f.ready.Read(p)
}

// pack adds the next file to the archive, or ends the archive.
func (f *packedFolder) pack() error {
	if len(f.files) == 0 {
		f.ended = true
		return f.archive.Close()
	}
	name := f.files[0]
	f.files = f.files[1:]
	data, err := fs.ReadFile(f.FS, name)
	if err != nil {
		return err
	}
	if err := f.archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644}); err != nil {
		return err
	}
	if _, err := f.archive.Write(data); err != nil {
		return err
	}
	return f.archive.Flush()
}

// Close implements io.Closer.
func (f *packedFolder) Close() error { return nil }
