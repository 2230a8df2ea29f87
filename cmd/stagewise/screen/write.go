// Package screen writes the output of commands:
//
//	events of a run ──Progress──▶ lines, a table and a progress bar
//	runs, versions, sources, topics, searches ──▶ tables and summaries
//	a configuration ──WritePreview──▶ what a run would do; a table ──NewDraft──▶ a first configuration
//	labelled rows, explain.Report ──WriteExplanation──▶ tables, JSON, a page
//	models, reports, pages ──Write──▶ the whole new file, or else the old one
//
// It parses no flags.
package screen

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// StandardOutput is the path that stands for the standard output.
const StandardOutput = "-"

// Write calls content to write the file at path. A regular file is replaced only when all of its new content is on the
// disk: after an error it still has the old content. It keeps its mode; a new file has mode 0666 before the umask. The
// standard output, pipes and devices are written to directly. The errors of content are returned unchanged, because
// they may be about the input.
func Write(path string, stdout io.Writer, content func(io.Writer) error) (err error) {
	if path == StandardOutput {
		return buffered(stdout, content)
	}
	path, info := resolved(path)
	if info != nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(buffered(f, content), f.Close())
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".stagewise-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := buffered(f, content); err != nil {
		if fault, ok := errors.AsType[*fs.PathError](err); ok && fault.Path == f.Name() {
			fault.Path = path // not that of a file that is gone
		}
		return errors.Join(err, f.Close())
	}
	if info != nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// resolved returns the path of what a write to path replaces, without symbolic links if it is a regular file, and information about it,
// which is nil if there is nothing.
func resolved(path string) (string, fs.FileInfo) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return path, info
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path, info
}

func buffered(w io.Writer, content func(io.Writer) error) error {
	b := bufio.NewWriter(w)
	if err := content(b); err != nil {
		return err
	}
	return b.Flush()
}

// CheckWritable returns an error if path is a directory, or no file can be created in its directory. Commands call it before a long run,
// so that such a mistake does not cost the run.
func CheckWritable(path string) error {
	path, info := resolved(path)
	switch {
	case info != nil && info.IsDir():
		return errors.New("expected a file, found a directory")
	case info != nil && !info.Mode().IsRegular(): // is written to directly
		return nil
	}
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", folder)
	}
	if err := unix.Access(folder, unix.W_OK); err != nil {
		return fmt.Errorf("no file can be made in %s: %w", folder, err)
	}
	return nil
}

// Report is what --report writes. schemas/report.schema.json describes it.
type Report struct {
	*schemas.Report
	// Configuration is that of the command that submitted the run, with all defaults; nil if this command only attached to it.
	Configuration *config.Config `json:"configuration,omitempty"`
}

// WriteJSON writes a value as indented JSON. An empty path stands for no file.
func WriteJSON(path string, stdout io.Writer, value any) error {
	if path == "" {
		return nil
	}
	return Write(path, stdout, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(value)
	})
}

// Retraining is the report of a chain.
type Retraining struct {
	*pipeline.Retraining
	Configuration *config.Config `json:"configuration"`
}
