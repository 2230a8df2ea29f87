package ingest

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
)

// openCSV reads examples with their labels.
func openCSV(files []*content, o Options) (reader, error) {
	r, err := openAssigned(files[0], o)
	if err != nil {
		return nil, err
	}
	return r, r.lay()
}

// openAssigned returns a reader whose columns have their roles for training.
func openAssigned(c *content, o Options) (*csvReader, error) {
	r, err := newCSVReader(c, o)
	if err != nil {
		return nil, err
	}
	if o.hasHeader() {
		r.takeHeader()
	}
	return r, r.assign()
}

// hasHeader reports whether the first row of the files to train on has the names of the columns.
func (o Options) hasHeader() bool {
	if o.Header != nil {
		return *o.Header
	}
	return slices.ContainsFunc(o.namedColumns(), Column.IsName)
}

// csvWords adds the words of a file's categorical columns and texts.
func csvWords(c *content, o Options, found *foundWords) error {
	r, err := openAssigned(c, o)
	if err != nil {
		return err
	}
	for {
		if err := r.read(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for at := range r.cells {
			if err := found.add(&r.layout, at, r.record[at]); err != nil {
				return r.fail(at, err)
			}
		}
	}
}

// newCSVReader reads the first row. It is an example, until takeHeader.
func newCSVReader(c *content, o Options) (*csvReader, error) {
	r := &csvReader{content: c, limit: &rowLimit{from: c}}
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
	first, err := firstRows(c)
	if err != nil {
		return nil, err
	}
	comma, err := o.delimiter(c.name, first)
	if err != nil {
		return nil, err
	}
	r.parser = newCSVParser(r.limit, comma)
	err = r.read()
	if err == io.EOF {
		return nil, wholeFile(c.name, errors.New("an empty file"))
	}
	if err != nil {
		return nil, err
	}
	r.pending = true
	r.layout = newLayout(o, csvLabel, len(r.record), r.fail)
	return r, nil
}

// takeHeader takes the first row as the names of the columns.
func (r *csvReader) takeHeader() {
	r.pending, r.empty = false, true
	r.names = make([]string, len(r.record))
	for i, name := range r.record {
		r.names[i] = strings.Clone(strings.TrimSpace(name))
	}
}

// newCSVParser returns a parser of rows. Each row may have another number of columns: the reader checks it, and its error says how
// many are expected.
func newCSVParser(from io.Reader, comma rune) *csv.Reader {
	parser := csv.NewReader(from)
	parser.Comma = comma
	parser.ReuseRecord = true
	parser.FieldsPerRecord = -1
	parser.TrimLeadingSpace = comma != '\t'
	return parser
}
