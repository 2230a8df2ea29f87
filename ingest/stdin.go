package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/images"
	"github.com/stagewise/stagewise/ingest/input"
)

// StandardInput is the name that stands for the standard input in the place of
// a file.
const StandardInput = "-"

// shown returns the name of a file for people.
func shown(name string) string {
	if name == StandardInput {
		return "standard input"
	}
	return name
}

// NamesStandardInput reports whether one of the files is the standard input.
func (o Options) NamesStandardInput() bool {
	return slices.Contains(o.Train, StandardInput) || slices.Contains(o.Test, StandardInput)
}

// Spool copies in to a temporary file, from which the options read the standard
// input: a source is read more than once, the first time for its digest. The
// file has no name any more when Spool returns, so nothing is left of it when
// the process ends, however it ends. Call remove when nothing reads the source
// any more. Spool returns early with the context's error when ctx ends, and then
// a read of in may still be under way.
func (o *Options) Spool(ctx context.Context, in io.Reader) (remove func() error, err error) {
	file, err := os.CreateTemp("", "stagewise-*")
	if err != nil {
		return nil, fmt.Errorf("copy the standard input to a temporary file: %w", err)
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(file, in)
		copied <- err
	}()
	err = os.Remove(file.Name())
	if err == nil {
		select {
		case err = <-copied:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		file.Close() // nothing of it is needed any more
		return nil, fmt.Errorf("copy the standard input to a temporary file: %w", err)
	}
	o.spooled = file
	return file.Close, nil
}

// open opens a file by its name.
func (o Options) open(name string) (io.ReadCloser, error) {
	if name != StandardInput {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return images.OpenFolder(name, !o.Predicts())
		}
		return os.Open(name)
	}
	if o.spooled == nil {
		return nil, errors.New("only train, ingest and predict read it")
	}
	info, err := o.spooled.Stat()
	if err != nil {
		return nil, err
	}
	return &spooled{io.NewSectionReader(o.spooled, 0, info.Size()), info}, nil
}

// spooled is the standard input from its beginning. It is a file for formats
// that begin to read at the end.
type spooled struct {
	*io.SectionReader
	info fs.FileInfo
}

// Close does nothing: whoever has spooled the standard input closes the file.
func (*spooled) Close() error { return nil }

func (s *spooled) Stat() (fs.FileInfo, error) { return s.info, nil }

// openContent opens a file. The caller closes the content.
func (o Options) openContent(ctx context.Context, name string) (*input.Content, error) {
	file, err := o.open(name)
	if err != nil {
		return nil, input.WholeFile(shown(name), err)
	}
	c, err := input.New(ctx, shown(name), file)
	if err != nil {
		file.Close()
		return nil, err
	}
	c.Path = o.parts[name]
	return c, nil
}
