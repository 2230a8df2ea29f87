package csv

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
)

// openCSV reads examples with their labels.
func openCSV(files []*input.Content, o layout.Options) (format.Reader, error) {
	r, err := openAssigned(files[0], o)
	if err != nil {
		return nil, err
	}
	return r, r.Lay()
}

// openAssigned returns a reader whose columns have their roles for training.
func openAssigned(c *input.Content, o layout.Options) (*csvReader, error) {
	r, err := newCSVReader(c, o)
	if err != nil {
		return nil, err
	}
	if hasHeader(o) {
		if err := r.parseHeader(); err != nil {
			return nil, err
		}
	}
	return r, r.Assign()
}

// hasHeader reports whether the first row of training files is a header.
func hasHeader(o layout.Options) bool {
	if o.Header != nil {
		return *o.Header
	}
	return slices.ContainsFunc(o.NamedColumns(), layout.Column.IsName)
}

// csvWords adds the words of a file's categorical columns and texts.
func csvWords(c *input.Content, o layout.Options, found *layout.FoundWords) error {
	r, err := openAssigned(c, o)
	if err != nil {
		return err
	}
	for rows := 0; !found.Enough(rows); rows++ {
		if err := r.read(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for at := range r.Cells {
			if err := found.Add(&r.Layout, at, r.record[at]); err != nil {
				return r.fail(at, err)
			}
		}
	}
	return nil
}

// newCSVReader reads the first row. It is an example, until parseHeader.
func newCSVReader(c *input.Content, o layout.Options) (*csvReader, error) {
	r := &csvReader{Content: c, limit: &rowLimit{from: c}}
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
	first, err := input.FirstRows(c)
	if err != nil {
		return nil, err
	}
	comma, err := delimiterOf(o, c.Name, first)
	if err != nil {
		return nil, err
	}
	r.parser = newParser(r.limit, comma)
	err = r.read()
	if err == io.EOF {
		return nil, input.WholeFile(c.Name, input.ErrEmpty)
	}
	if err != nil {
		return nil, err
	}
	if r.pending = true; len(r.record) == 1 {
		r.blank.first(r.record, r.line)
	}
	r.Layout = layout.New(o, Label, len(r.record), r.fail)
	r.Encoded = true
	return r, nil
}

// parseHeader uses the first row as the column names.
func (r *csvReader) parseHeader() error {
	r.pending, r.empty = false, true
	r.Names = make([]string, len(r.record))
	for i, name := range r.record {
		r.Names[i] = strings.Clone(strings.TrimSpace(name))
	}
	for i, name := range r.Names {
		if err := r.CheckText(name); err != nil {
			return r.fail(-1, fmt.Errorf("the name of column %d: %w", i, err))
		}
	}
	return nil
}

// newParser returns a parser that accepts rows of any length: the reader checks the number of columns, and its error
// includes the expected number.
func newParser(from io.Reader, comma rune) *csv.Reader {
	parser := csv.NewReader(from)
	parser.Comma = comma
	parser.ReuseRecord = true
	parser.FieldsPerRecord = -1
	parser.TrimLeadingSpace = comma != '\t'
	return parser
}

// csvSpread adds the numbers of the first rows of a CSV. It ignores errors, which are reported when all rows are read.
func csvSpread(c *input.Content, o layout.Options, found layout.Spreads) error {
	r, err := openAssigned(c, o)
	if err != nil {
		return err
	}
	for range layout.OffsetRows {
		if err := r.read(); err != nil {
			return nil
		}
		for at, cell := range r.Cells {
			if cell.Role == layout.Time {
				found.AddTime(&r.Layout, at, r.record[at])
			}
			if cell.Role != layout.Feature {
				continue
			}
			if v, err := strconv.ParseFloat(r.record[at], 64); err == nil && !r.Missing().HasNumber(v) {
				found.Add(r.NameOf(at), v)
			}
		}
	}
	return nil
}
