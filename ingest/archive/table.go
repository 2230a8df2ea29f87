package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
)

// snapshotName names a state of a table. The zero value is the current one.
type snapshotName struct {
	ID   string    // ID, tag or branch of Iceberg, or version of Delta Lake; "": none
	AsOf time.Time // the last state at this time; zero: none
}

// dataFile is a live file of a table.
type dataFile struct {
	Path string // of a file in Parquet
	// Deleted are the numbers of deleted rows, from 0 and ascending.
	Deleted []int64
	parquet.Columns
}

// addValue adds a partition value of a column that the file may lack. text is a text, or the digits of a whole number; nil means null.
func (f *dataFile) addValue(column string, text *string, isWhole bool) (err error) {
	v := input.Partition{Column: column, Null: text == nil, IsWhole: isWhole}
	if text != nil {
		v.Text = *text
	}
	if text != nil && isWhole {
		if v.Whole, err = strconv.ParseInt(v.Text, 10, 64); err != nil {
			return input.WholeFile(f.Path, err)
		}
	}
	f.Values = append(f.Values, v)
	return nil
}

// table is a table that is being read.
type table struct {
	ctx      context.Context
	store    store
	root     string // current path of its directory
	location string // path when the table was written; "": unknown
}

// path returns the path of a file that the log names. Paths below the table's original location are below its current directory.
func (t *table) path(name string) string {
	within := strings.TrimSuffix(t.location, "/") + "/"
	switch scheme, rest, absolute := strings.Cut(name, ":/"); {
	case t.location != "" && strings.HasPrefix(name, within):
		return t.root + "/" + name[len(within):]
	case absolute && scheme == "file":
		return "/" + strings.TrimLeft(rest, "/")
	case absolute && (scheme == "s3a" || scheme == "s3n"):
		return "s3:/" + rest
	case absolute || strings.HasPrefix(name, "/"):
		return name
	}
	return t.root + "/" + name
}

// versions returns the files of a directory whose names match, by the number that the first group of the pattern matches, and the highest
// number, −1 if there are none. The other files have the number −1.
func (t *table) versions(folder string, names *regexp.Regexp) (files map[int64][]string, last int64, err error) {
	files, last = map[int64][]string{}, -1
	for file, err := range t.store.Below(t.ctx, t.root+"/"+folder) {
		version := int64(-1)
		if found := names.FindStringSubmatch(path.Base(file)); err == nil && found != nil {
			if version, err = strconv.ParseInt(found[1], 10, 64); err != nil {
				err = input.WholeFile(file, err)
			}
		}
		if err != nil {
			return nil, 0, err
		}
		files[version], last = append(files[version], file), max(last, version)
	}
	return files, last, nil
}

// maxMetadata is the maximum size of a file of metadata that is read as a whole, decompressed.
const maxMetadata = 1 << 30

// content returns the content of a file.
func (t *table) content(path string) ([]byte, error) {
	_, from, err := t.store.content(t.ctx, path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(from, maxMetadata+1))
	if err == nil && len(content) > maxMetadata {
		err = input.WholeFile(path, fmt.Errorf("more than %d MiB of metadata", maxMetadata>>20))
	}
	return content, errors.Join(err, from.Close())
}

// eachParquet calls visit for the rows of a file in Parquet.
func eachParquet(t *table, path string, columns parquet.Columns, visit func(row arrow.Nested) error) error {
	f, err := t.store.Open(t.ctx, path)
	if err != nil {
		return err
	}
	rows, err := parquet.Open(f, f.Size(), columns)
	if err != nil {
		return errors.Join(input.WholeFile(path, err), f.Close())
	}
	for err == nil {
		batch, e := rows.Next(batchRows, nil)
		if err = e; err == nil {
			of := arrow.RowsOf(batch)
			for row := 0; row < of.Column.Len() && err == nil; row++ {
				err = visit(arrow.Nested{Of: of, Row: row})
			}
		}
	}
	if err == io.EOF {
		err = nil
	} else {
		err = input.WholeFile(path, err)
	}
	return errors.Join(err, rows.Close(), f.Close())
}

// checkFormat returns an error if a file has a format that is not supported.
func checkFormat(path, format string) error {
	if !strings.EqualFold(format, onlyFormat) {
		return input.WholeFile(path, fmt.Errorf("a file of the table in the format %s: expected %s", format, onlyFormat))
	}
	return nil
}

// onlyFormat is the format of files with rows and with deletes.
const onlyFormat = "parquet"

// fail returns an error of the table.
func (t *table) fail(format string, arguments ...any) error {
	return input.WholeFile(t.root, fmt.Errorf(format, arguments...))
}
