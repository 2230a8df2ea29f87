package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// standard is the name of the standard output.
const standard = "-"

// write has content write a file, which is there whole or not at all: it replaces what was there when all is on the disk.
// What is no regular file (a pipe, /dev/stdout) is written to as it comes, and so is the standard output.
func write(path string, stdout io.Writer, content func(io.Writer) error) (err error) {
	if path == standard {
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
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := buffered(f, content); err != nil {
		return err
	}
	// CreateTemp's mode is for secrets; this is what the system makes of a new file, less a wider umask.
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func buffered(w io.Writer, content func(io.Writer) error) error {
	b := bufio.NewWriter(w)
	if err := content(b); err != nil {
		return err
	}
	return b.Flush()
}

// writable finds before a long run what would go wrong after it: that there is no folder for a file.
func writable(path string) error {
	if path == "" || path == standard {
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
