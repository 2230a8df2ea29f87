package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/plain"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// withFiles returns the options with the names expanded to files.
func (o Options) withFiles() (_ Options, err error) {
	o.parts = map[string][]input.Partition{}
	if o.Train, err = filesOf(o.Train, o.parts); err != nil {
		return o, err
	}
	o.Test, err = filesOf(o.Test, o.parts)
	return o, err
}

// isPart reports whether a file is one of the tables in a directory.
func (o Options) isPart(file string) bool {
	_, is := o.parts[file]
	return is
}

// isEmptyPart reports whether an error is that of a part without rows, which is passed over.
func (o Options) isEmptyPart(file string, err error) bool {
	return o.isPart(file) && errors.As(err, new(input.EmptyError))
}

// columnsOf returns the columns in the path of a table. others are partition values that only describe the storage, and are
// not columns because no option names them. When rows are predicted, all are columns.
func (o Options) columnsOf(table string) (columns, others []input.Partition) {
	named := o.NamedColumns()
	for _, v := range o.parts[table] {
		if v.IsLayout && o.Mode != layout.Predicting && !slices.Contains(named, layout.Column(v.Column)) {
			others = append(others, v)
		} else {
			columns = append(columns, v)
		}
	}
	return columns, others
}

// FolderColumns returns the names of the features whose values are in the names of the source's folders, and of those columns
// of the folders that are not features because they only say where and when rows were stored. Columns that options name are in
// neither.
func (s *Source) FolderColumns() (features, others []string) {
	of := func(parts []input.Partition) (names []string) {
		for _, v := range parts {
			if !slices.Contains(s.options.NamedColumns(), layout.Column(v.Column)) {
				names = append(names, v.Column)
			}
		}
		return names
	}
	columns, left := s.options.columnsOf(s.opened[0])
	features = slices.DeleteFunc(of(columns), func(name string) bool {
		return !slices.ContainsFunc(s.Columns, func(c examples.Column) bool { return c.Source() == name })
	})
	return features, of(left)
}

// Files expands names to files, in the order of the names. A name with *, ? or [ is a pattern as in filepath.Match, and is
// expanded to the matching files, sorted. If a file has exactly this name, it takes precedence. A pattern without matches
// is a *input.Error. * and ? don't match the start of a hidden name. A directory is expanded to the tables in it, unless
// it has images.
func Files(names []string) ([]string, error) {
	return filesOf(names, map[string][]input.Partition{})
}

// filesOf is Files, and adds the tables in directories to parts, with the partition values in their paths.
func filesOf(names []string, parts map[string][]input.Partition) ([]string, error) {
	var files []string
	for _, name := range names {
		found, err := input.Glob(name)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, input.WholeFile(name, errors.New("no file matches this pattern"))
		}
		for _, file := range found {
			tables, values, err := folderTables(file)
			if err != nil {
				return nil, err
			}
			for _, table := range tables {
				parts[table] = values[table]
			}
			if len(tables) == 0 {
				tables = []string{file}
			}
			files = append(files, tables...)
		}
	}
	return files, nil
}

// folderTables is [input.Tables]; there are none if the name is not a directory.
func folderTables(name string) (tables []string, values map[string][]input.Partition, err error) {
	if info, err := os.Stat(name); name == StandardInput || err != nil || !info.IsDir() {
		return nil, nil, nil
	}
	tables, values, err = input.Tables(name, kindOf)
	if _, placed := errors.AsType[*input.Error](err); err != nil && !placed {
		err = input.WholeFile(name, err)
	}
	return tables, values, err
}

// kindOf returns the kind of a file in a directory, by its name.
func kindOf(name string) input.Kind {
	f, told := Options{}.formatByName(name)
	if !told {
		return input.Kind{IsTable: strings.HasSuffix(uncompressed(name), ".json")} // JSON Lines in Spark's naming: the content decides
	}
	return input.Kind{IsTable: !f.ReadsFolders && f.Files == 1, HasPath: !f.IsText}
}

// StandardInput is the file name for the standard input.
const StandardInput = "-"

// shown returns the displayed name of a file.
func shown(name string) string {
	if name == StandardInput {
		return "standard input"
	}
	return name
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
