package csv

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Format is CSV (RFC 4180), one example in each row.
func Format() format.Format {
	return format.Format{
		Name:     "csv",
		Meaning:  "one example a row",
		Patterns: []string{"*.csv"},
		IsText:   true,
		Files:    1,
		Label:    Label,
		Keys: []string{"label", "label_separator", "label_columns", "targets", "weight", "text", "words.vocabulary", "words.columns",
			"words.phrases", "header", "delimiter", "columns.use", "columns.drop", "categorical", "times", "missing", "missing_values"},
		Check:  CheckDelimiter,
		Open:   openCSV,
		Words:  csvWords,
		Spread: csvSpread,
		View:   csvView,
		Inspect: func(opened format.Reader) error {
			r := opened.(*csvReader)
			return r.InspectLabels(r.eachLabel)
		},
		OpenFeatures: openCSVFeatures,
	}
}

// Label is the default column of the label.
const Label = "0"

var errLongRow = fmt.Errorf("a row of more than %d MiB (an open quote?)", input.MaxRowBytes>>20)

// csvReader reads the rows of a CSV.
type csvReader struct {
	*input.Content
	layout.Layout
	limit  *rowLimit
	parser *csv.Reader

	record  []string // last row
	line    int      // of the record
	pending bool     // the record is not in a batch yet: the next read returns it
	empty   bool     // there is a header, and no row yet
	blank   blankRows
	doubt   func(record []string) error // returns the reason why the fields of a row may not be columns; nil: no check
	batch   examples.Rows
}

// fail returns an error at a column of the last row; -1: at the row.
func (r *csvReader) fail(column int, err error) error {
	e := &input.Error{File: r.Name, Line: r.line, Offset: -1, Err: r.Advise(column, err)}
	if column >= 0 {
		if e.Column = strconv.Itoa(column); column < len(r.Names) {
			e.Column += " (" + value.Quote(r.Names[column]) + ")"
		}
		if column < len(r.record) && !r.blank.current {
			e.Line, _ = r.parser.FieldPos(column) // an earlier quoted field may span several lines
		}
	}
	return e
}

// Reading also has the delimiter.
func (r *csvReader) Reading() layout.Reading {
	how := r.Layout.Reading()
	how.Header = r.Names != nil
	if r.parser.Comma != ',' {
		how.Delimiter = string(r.parser.Comma)
	}
	how.MissingValues = r.MissingValues()
	return how
}

// read reads the next row that is not blank. All rows have as many columns as the first one. With one column, blank rows
// count.
func (r *csvReader) read() error {
	for {
		if r.pending {
			r.pending = false
			return nil
		}
		if record, line, ok := r.blank.next(); ok {
			r.record, r.line = record, line
			return nil
		}
		r.limit.left = input.MaxRowBytes
		record, err := r.parser.Read()
		if err == io.EOF && len(r.Cells) == 1 && r.blank.ends(r.limit.lines()) {
			continue
		}
		if err != nil {
			return r.readError(err)
		}
		r.record = record
		r.line, _ = r.parser.FieldPos(0)
		switch wanted := len(r.Cells); {
		case len(record) == 1 && wanted != 1 && strings.TrimSpace(record[0]) == "": // a blank row
		case wanted > 0 && len(record) != wanted:
			return r.fail(-1, fmt.Errorf("%d columns, expected %d", len(record), wanted))
		default:
			if wanted == 1 && r.blank.before(record, r.line) {
				continue
			}
			return nil
		}
	}
}

// readError adds the position to a parser error. If the file could not be read, it returns that error instead.
func (r *csvReader) readError(err error) error {
	switch cause := r.limit.err; {
	case cause == errLongRow:
		r.line++
		return r.fail(-1, cause)
	case cause != nil && cause != io.EOF:
		return cause
	}
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		place := fmt.Sprintf("byte %d", syntax.Column)
		if syntax.Line > syntax.StartLine { // an open quote: its start is more helpful than the last line
			place = fmt.Sprintf("from here to line %d, %s", syntax.Line, place)
		}
		return &input.Error{File: r.Name, Line: syntax.StartLine, Offset: -1, Err: fmt.Errorf("%s: %w", place, syntax.Err)}
	}
	return err // io.EOF
}

// Next reads up to BatchRows rows. A row that does not fit into the message is left for the next batch.
func (r *csvReader) Next() (*examples.Rows, error) {
	b := &r.batch
	*b = examples.Rows{Cols: r.Features, Columns: r.Table, Floats: b.Floats[:0], Words: b.Words[:0], NoLabel: b.NoLabel[:0],
		LabelLists: b.LabelLists[:0], Targets: b.Targets[:0], Weights: b.Weights[:0]}
	if r.IsSparse() {
		b.Sparse, b.Floats, b.Cols = &r.Rows, nil, 0
		r.Rows.Reset()
	}
	for size := len(r.TableText); ; {
		err := r.read()
		switch {
		case err == io.EOF && b.Rows > 0:
			return b, nil
		case err == io.EOF && r.empty:
			return nil, r.fail(-1, input.EmptyError("no row follows the header"))
		case err != nil:
			return nil, err
		}
		label := ""
		if r.Label >= 0 {
			label = r.record[r.Label]
		}
		if r.Text >= 0 {
			if err := r.Words.Count(r.record[r.Text]); err != nil {
				return nil, r.fail(r.Text, err)
			}
		}
		row, err := r.RowBytes(label)
		if err != nil {
			return nil, r.fail(r.Label, err)
		}
		if b.Rows == r.Options.BatchRows || size+row > layout.MaxBatchBytes {
			r.pending = true
			return b, nil
		}
		size += row
		r.empty = false
		if r.doubt != nil {
			if err := r.doubt(r.record); err != nil {
				return nil, err
			}
		}
		if err := r.AppendRow(b, r.record, r.parse); err != nil {
			return nil, err
		}
	}
}

// eachLabel calls put for the labels of the next rows, until it returns false.
func (r *csvReader) eachLabel(put func(label string) bool) error {
	for {
		switch err := r.read(); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !put(strings.TrimSpace(r.record[r.Label])):
			return nil
		}
	}
}

// parse parses a feature; NaN if it is missing.
func (r *csvReader) parse(field string) (float32, error) {
	v, err := r.Layout.Parse(field)
	if _, word := err.(value.NumberError); word && r.Names == nil && r.line == 1 {
		err = fmt.Errorf("%w (if this is a header: set %s)", err, r.Options.Key("header"))
	}
	return v, err
}

// rowLimit limits the length of a row. The parser reads through it; left is reset before each row.
type rowLimit struct {
	from io.Reader
	left int   // number of bytes that may still be read
	err  error // error of the last Read
	ends int   // number of line ends read
	last byte  // last byte read; 0: none
}

// lines returns the number of lines read.
func (l *rowLimit) lines() int {
	if l.last == '\n' || l.last == 0 {
		return l.ends
	}
	return l.ends + 1
}

func (l *rowLimit) Read(p []byte) (n int, err error) {
	if l.left <= 0 {
		l.err = errLongRow
		return 0, l.err
	}
	if n, l.err = l.from.Read(p); n > 0 {
		l.ends, l.last = l.ends+bytes.Count(p[:n], []byte{'\n'}), p[n-1]
	}
	l.left -= n
	return n, l.err
}
