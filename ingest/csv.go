package ingest

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// csvFormat is CSV (RFC 4180), one example in each row.
func csvFormat() format {
	return format{
		name:     "csv",
		meaning:  "one example a row",
		patterns: []string{"*.csv"},
		files:    1,
		label:    csvLabel,
		keys:     []string{"label", "label_separator", "label_columns", "targets", "weight", "text", "words.vocabulary", "words.columns", "words.phrases", "header", "delimiter", "columns.use", "columns.drop", "categorical", "missing", "missing_values"},
		check:    checkDelimiter,
		open:     openCSV,
		words:    csvWords,
		inspect: func(opened reader) error {
			r := opened.(*csvReader)
			return r.inspectLabels(r.eachLabel)
		},
		openFeatures: openCSVFeatures,
	}
}

// csvLabel is the column of the label, if no key says another.
const csvLabel = "0"

// maxRowBytes is the maximum length of a row in a file. Without it an open quote
// would read the rest of the file into memory. The widest example that fits a
// message has 215,000 features, 19 bytes each.
const maxRowBytes = 4 << 20

var errLongRow = fmt.Errorf("a row of more than %d MiB (an open quote?)", maxRowBytes>>20)

// csvReader reads the rows of a CSV.
type csvReader struct {
	*content
	layout
	limit  *rowLimit
	parser *csv.Reader

	record  []string // of the row read last
	line    int      // of the record
	pending bool     // the record is not in a batch yet: the next read returns it
	empty   bool     // there is a header, and no row after it so far
	batch   schemas.ExampleRows
}

// fail returns an error at a column of the row read last; -1: at the row.
func (r *csvReader) fail(column int, err error) error {
	e := &FileError{File: r.name, Line: r.line, Offset: -1, Err: err}
	if column >= 0 {
		if e.Column = strconv.Itoa(column); column < len(r.names) {
			e.Column += " (" + quote(r.names[column]) + ")"
		}
		if column < len(r.record) {
			e.Line, _ = r.parser.FieldPos(column) // a quoted field before it may have several lines
		}
	}
	return e
}

// reading has also what tells the fields of a row.
func (r *csvReader) reading() reading {
	how := r.layout.reading()
	how.Header = r.names != nil
	if r.parser.Comma != ',' {
		how.Delimiter = string(r.parser.Comma)
	}
	how.MissingValues = r.missingValues()
	return how
}

// read reads the next row that is not blank. All have as many columns as the first one.
func (r *csvReader) read() error {
	for {
		if r.pending {
			r.pending = false
			return nil
		}
		r.limit.left = maxRowBytes
		record, err := r.parser.Read()
		if err != nil {
			return r.readError(err)
		}
		r.record = record
		r.line, _ = r.parser.FieldPos(0)
		switch wanted := len(r.cells); {
		case len(record) == 1 && wanted != 1 && strings.TrimSpace(record[0]) == "": // a blank row
		case wanted > 0 && len(record) != wanted:
			return r.fail(-1, fmt.Errorf("%d columns, expected %d", len(record), wanted))
		default:
			return nil
		}
	}
}

// readError adds the place to an error of the parser. If the file could not be
// read, readError returns that error and ignores what the parser says.
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
		if syntax.Line > syntax.StartLine { // an open quote: the line where it begins helps more than the last line
			place = fmt.Sprintf("from here to line %d, %s", syntax.Line, place)
		}
		return &FileError{File: r.name, Line: syntax.StartLine, Offset: -1, Err: fmt.Errorf("%s: %w", place, syntax.Err)}
	}
	return err // io.EOF
}

// next reads up to BatchRows rows. A row that does not fit the message is left
// for the next batch.
func (r *csvReader) next() (*schemas.ExampleRows, error) {
	b := &r.batch
	*b = schemas.ExampleRows{Cols: r.features, Columns: r.table, Floats: b.Floats[:0], Words: b.Words[:0], LabelLists: b.LabelLists[:0], Targets: b.Targets[:0], Weights: b.Weights[:0]}
	if r.text >= 0 {
		b.Sparse, b.Floats = &r.rows, nil
		r.rows.Reset()
	}
	for size := len(r.tableText); ; {
		err := r.read()
		switch {
		case err == io.EOF && b.Rows > 0:
			return b, nil
		case err == io.EOF && r.empty:
			return nil, r.fail(-1, errors.New("no row follows the header"))
		case err != nil:
			return nil, err
		}
		label := ""
		if r.label >= 0 {
			label = r.record[r.label]
		}
		if r.text >= 0 {
			if err := r.words.count(r.record[r.text]); err != nil {
				return nil, r.fail(r.text, err)
			}
		}
		row, err := r.rowBytes(label)
		if err != nil {
			return nil, r.fail(r.label, err)
		}
		if b.Rows == r.options.BatchRows || size+row > maxBatchBytes {
			r.pending = true
			return b, nil
		}
		size += row
		r.empty = false
		if err := r.appendRow(b, r.record, r.parse); err != nil {
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
		case !put(strings.TrimSpace(r.record[r.label])):
			return nil
		}
	}
}

// parse parses a feature; NaN if it is missing.
func (r *csvReader) parse(field string) (float32, error) {
	v, err := r.layout.parse(field)
	switch {
	case err == nil || r.isMissing(field) || decimalComma.MatchString(field):
	case r.names == nil && r.line == 1:
		err = fmt.Errorf("%w (if this is a header: set %s)", err, r.options.key("header"))
	case !r.options.predicts && looksLikeWords(field):
		err = fmt.Errorf("%w: examples.categorical takes columns of words, examples.columns.drop leaves a column out, examples.missing_values says which words mean that a value is missing", err)
	}
	return v, err
}

// rowLimit limits the length of a row. The parser reads through it; before each
// row left is set to the maximum.
type rowLimit struct {
	from io.Reader
	left int   // bytes that may still be read
	err  error // of the last Read
}

func (l *rowLimit) Read(p []byte) (n int, err error) {
	if l.left <= 0 {
		l.err = errLongRow
		return 0, l.err
	}
	n, l.err = l.from.Read(p)
	l.left -= n
	return n, l.err
}
