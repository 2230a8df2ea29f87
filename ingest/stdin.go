package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/plain"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
)

// StandardInput is the file name for the standard input.
const StandardInput = "-"

// shown returns the displayed name of a file.
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

// Spool copies in to a temporary file, from which the options read the standard input, because a source is read more than
// once, the first time for its digest. The file is already unlinked when Spool returns, so it disappears with the process.
// Call remove when the source is no longer read. Spool returns early with the context's error when ctx ends; a read of in
// may then still be running.
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
		file.Close() // the file is discarded
		return nil, fmt.Errorf("copy the standard input to a temporary file: %w", err)
	}
	o.spooled = file
	return file.Close, nil
}

// open opens a file by name.
func (o Options) open(name string) (io.ReadCloser, error) {
	if name != StandardInput {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return plain.OpenFolder(name, o.Mode != layout.Predicting)
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

// spooled is the standard input from its start. It is a file for formats that read the end first.
type spooled struct {
	*io.SectionReader
	info fs.FileInfo
}

// Close does nothing: the caller of Spool closes the file.
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
	c.Path, _ = o.columnsOf(name)
	return c, nil
}
