package ingest

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
)

// csvFormat is CSV (RFC 4180), one example in each row.
func csvFormat() format {
	return format{
		name:         "csv",
		meaning:      "one example a row",
		patterns:     []string{"*.csv"},
		files:        1,
		keys:         []string{"label", "weight", "header", "delimiter", "columns.use", "columns.drop", "categorical", "missing", "missing_values"},
		check:        checkCSV,
		open:         openCSV,
		inspect:      inspectCSV,
		openFeatures: openCSVFeatures,
	}
}

// csvLabel is the column of the label.
func csvLabel(o Options) Column {
	if o.Label == "" {
		return "0"
	}
	return o.Label
}

// hasHeader reports whether the first row of the files to train on has the names of the columns.
func (o Options) hasHeader() bool {
	if o.Header != nil {
		return *o.Header
	}
	return slices.ContainsFunc(o.csvColumns(), Column.IsName)
}

// csvColumns returns all columns that the options name.
func (o Options) csvColumns() []Column {
	all := []Column{o.Label, o.Weight}
	for _, list := range [][]string{o.Columns.Use, o.Columns.Drop, o.Categorical} {
		for _, c := range list {
			all = append(all, Column(c))
		}
	}
	return all
}

func checkCSV(o Options) (problems []schemas.Problem) {
	wrong := func(key, value, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: value, Want: want})
	}
	negative := func(key string, c Column) {
		if n, isNumber := c.number(); isNumber && n < 0 {
			wrong(key, string(c), "a column's number, from 0, or its name")
		}
	}
	negative("label", o.Label)
	negative("weight", o.Weight)
	if o.Weight != "" && o.Weight == csvLabel(o) {
		wrong("weight", string(o.Weight), "another column than the label's")
	}
	use := map[string]bool{}
	for _, list := range []struct {
		key     string
		columns []string
	}{{"columns.use", o.Columns.Use}, {"columns.drop", o.Columns.Drop}, {"categorical", o.Categorical}} {
		known := map[string]bool{}
		for _, c := range list.columns {
			negative(list.key, Column(c))
			switch {
			case c == "" || known[c]:
				wrong(list.key, strconv.Quote(c), "different columns, each by its number, from 0, or by its name")
			case Column(c) == csvLabel(o) || Column(c) == o.Weight:
				wrong(list.key, c, "other columns than those of the label and the weight")
			case list.key == "columns.drop" && use[c]:
				wrong(list.key, c, "other columns than those under columns.use")
			}
			if known[c] = true; list.key == "columns.use" {
				use[c] = true
			}
		}
	}
	for _, c := range o.Categorical {
		if slices.Contains(o.Columns.Drop, c) || len(use) > 0 && !use[c] {
			wrong("categorical", c, "columns that become features")
		}
	}
	if o.Header != nil && !*o.Header && slices.ContainsFunc(o.csvColumns(), Column.IsName) {
		wrong("header", "false", "true, as a column is given by its name")
	}
	if o.Delimiter != "" && (utf8.RuneCountInString(o.Delimiter) != 1 || strings.ContainsAny(o.Delimiter, "\"\r\n\ufffd")) {
		wrong("delimiter", strconv.Quote(o.Delimiter), "one character")
	}
	return problems
}

// maxRowBytes is the maximum length of a row in a file. Without it an open quote
// would read the rest of the file into memory. The widest example that fits a
// message has 215,000 features, 19 bytes each.
const maxRowBytes = 4 << 20

var errLongRow = fmt.Errorf("a row of more than %d MiB (an open quote?)", maxRowBytes>>20)

// csvReader reads the rows of a CSV.
type csvReader struct {
	*content
	limit       *rowLimit
	parser      *csv.Reader
	options     Options
	header      []string // nil: the file has none
	cells       []cell   // what becomes of each column
	labelColumn int      // -1: labels are not read
	table       schemas.Columns
	columnsText string // of table: each message has it
	words       map[string]string
	missing     map[string]bool // words that say that a value is missing

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
		if e.Column = strconv.Itoa(column); column < len(r.header) {
			e.Column += " (" + quote(r.header[column]) + ")"
		}
		if column < len(r.record) {
			e.Line, _ = r.parser.FieldPos(column) // a quoted field before it may have several lines
		}
	}
	return e
}

func (r *csvReader) width() int { return r.batch.Cols }

// columns are those that the features are of. A file without a header says none.
func (r *csvReader) columns() schemas.Columns { return r.table }

// reading has numbers, as a column that is given by its name is the same one.
func (r *csvReader) reading() (c reading) {
	for at, cell := range r.cells {
		switch cell.role {
		case label:
			c.Label = strconv.Itoa(at)
		case weight:
			c.Weight = strconv.Itoa(at)
		case ignored:
			c.Ignored = append(c.Ignored, at)
		case category:
			c.Categories = append(c.Categories, cell.words)
		}
	}
	c.Header = r.header != nil
	if r.parser.Comma != ',' {
		c.Delimiter = string(r.parser.Comma)
	}
	if !slices.Equal(r.options.MissingValues, DefaultMissingValues()) {
		c.MissingValues = r.options.MissingValues
	}
	return c
}

// read reads the next row that is not blank.
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
		if len(record) > 1 || len(r.cells) == 1 || strings.TrimSpace(record[0]) != "" {
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
	b.Rows, b.Floats, b.Words, b.Weights = 0, b.Floats[:0], b.Words[:0], b.Weights[:0]
	for size := len(r.columnsText); ; {
		err := r.read()
		switch {
		case err == io.EOF && b.Rows > 0:
			return b, nil
		case err == io.EOF && r.empty:
			return nil, r.fail(-1, errors.New("no row follows the header"))
		case err != nil:
			return nil, err
		case len(r.record) != len(r.cells):
			return nil, r.fail(-1, fmt.Errorf("%d columns, expected %d", len(r.record), len(r.cells)))
		}
		row := floatRowBytes(b.Cols)
		if r.labelColumn >= 0 {
			row += len(r.record[r.labelColumn])
		}
		if len(r.columnsText)+row > maxBatchBytes {
			return nil, r.fail(r.labelColumn, fmt.Errorf("the example does not fit a message of %d bytes: its label is too long", schemas.MaxMessage))
		}
		if b.Rows == r.options.BatchRows || size+row > maxBatchBytes {
			r.pending = true
			return b, nil
		}
		size += row
		r.empty = false
		if err := r.append(); err != nil {
			return nil, err
		}
	}
}

// append adds the row to the batch.
func (r *csvReader) append() error {
	b := &r.batch
	base := len(b.Floats)
	b.Floats = slices.Grow(b.Floats, b.Cols)[:base+b.Cols]
	features := b.Floats[base:]
	for i, field := range r.record {
		cell, field := r.cells[i], strings.TrimSpace(field)
		switch cell.role {
		case feature:
			v, err := r.feature(field)
			if err != nil {
				return r.fail(i, err)
			}
			features[cell.at] = v
		case category:
			if err := r.category(cell, features, field); err != nil {
				return r.fail(i, err)
			}
		case label:
			word, err := r.label(field)
			if err != nil {
				return r.fail(i, err)
			}
			b.Words = append(b.Words, word)
		case weight:
			v, err := number(field)
			if err != nil {
				return r.fail(i, err)
			}
			if v < 0 {
				return r.fail(i, fmt.Errorf("weight %s: expected a number ≥ 0", quote(field)))
			}
			b.Weights = append(b.Weights, v)
		}
	}
	b.Rows++
	return nil
}

// feature parses a feature; NaN if it is missing.
func (r *csvReader) feature(field string) (float32, error) {
	if r.isMissing(field) {
		return float32(math.NaN()), r.allowMissing(field)
	}
	v, err := number(field)
	switch {
	case err == nil:
	case decimalComma.MatchString(field):
		err = fmt.Errorf("%w: write decimals with a point", err)
	case r.header == nil && r.line == 1:
		err = fmt.Errorf("%w (if this is a header: set examples.header)", err)
	case r.labelColumn >= 0 && looksLikeWords(field):
		err = fmt.Errorf("%w: examples.categorical takes columns of words, examples.columns.drop leaves a column out, examples.missing_values says which words mean that a value is missing", err)
	}
	return v, err
}

// decimalComma is a number as half of the world writes it.
var decimalComma = regexp.MustCompile(`^[-+]?[0-9]+,[0-9]+$`)

// looksLikeWords reports whether a field that is no number may be one of a few words.
func looksLikeWords(field string) bool {
	first, _ := utf8.DecodeRuneInString(field)
	return unicode.IsLetter(first) && len(field) <= 40
}

// isMissing reports whether a field says that its value is missing.
func (r *csvReader) isMissing(field string) bool { return field == "" || r.missing[field] }

// allowMissing returns an error if values may not be missing.
func (r *csvReader) allowMissing(field string) error {
	switch {
	case r.options.Missing == MissingMean:
		return nil
	case field == "":
		return errors.New("an empty field")
	}
	return fmt.Errorf("a missing value, %s: examples.missing: mean takes the mean of the column", quote(field))
}

// number parses a finite float32.
func number(field string) (float32, error) {
	if field == "" {
		return 0, errors.New("an empty field")
	}
	v, err := strconv.ParseFloat(field, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large for a float32", quote(field))
	case err != nil:
		return 0, fmt.Errorf("%s is not a number", quote(field))
	case v-v != 0: // v-v is 0 for finite v only
		return 0, fmt.Errorf("%s is not a finite number", quote(field))
	}
	return float32(v), nil
}

// maxWords is the maximum number of labels whose text is kept.
const maxWords = 1 << 16

// label checks a label and returns a string of its own, shared by all rows with
// that label. The field itself is a slice of the row and would keep all of it in
// memory.
func (r *csvReader) label(field string) (string, error) {
	if word, ok := r.words[field]; ok {
		return word, nil
	}
	switch {
	case field == "":
		return "", errors.New("an empty label")
	case !utf8.ValidString(field):
		return "", fmt.Errorf("label %s is not UTF-8", quote(field))
	case len(r.options.Classes) > 0:
		return "", fmt.Errorf("label %s is not one of the classes", quote(field))
	}
	if len(r.words) == maxWords {
		clear(r.words)
	}
	word := strings.Clone(field)
	r.words[word] = word
	return word, nil
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
