package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stagewise/stagewise/model"
)

// standardOutput is the path that stands for the standard output.
const standardOutput = "-"

// write calls content to write the file at path. A regular file is replaced only when all of its new content is on the disk:
// after an error it still has the old content. The standard output, pipes and devices are written to directly. The errors of
// content are returned as they are, because they may be about the input.
func write(path string, stdout io.Writer, content func(io.Writer) error) (err error) {
	if path == standardOutput {
		return buffered(stdout, content)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(buffered(f, content), f.Close())
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := buffered(f, content); err != nil {
		return err
	}
	// CreateTemp gives mode 0600. New files usually have mode 0644, which umask 022 makes of 0666.
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func buffered(w io.Writer, content func(io.Writer) error) error {
	b := bufio.NewWriter(w)
	if err := content(b); err != nil {
		return err
	}
	return b.Flush()
}

// checkWritable returns an error if path is a directory, or in no directory. Commands call it before a long run, so that
// such a mistake does not cost the run. An empty path stands for no file.
func checkWritable(path string) error {
	if path == "" || path == standardOutput {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write %s: it is a directory", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	} else if !info.IsDir() {
		return fmt.Errorf("write %s: %s is not a directory", path, filepath.Dir(path))
	}
	return nil
}

// writeModel writes a model file. An empty path stands for no file.
func writeModel(path string, stdout io.Writer, m *model.Model) error {
	if path == "" {
		return nil
	}
	return write(path, stdout, func(w io.Writer) error {
		_, err := m.WriteTo(w)
		return err
	})
}
