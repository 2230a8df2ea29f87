package ingest

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
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
		keys:         []string{"label", "weight", "header", "missing"},
		check:        checkCSV,
		open:         openCSV,
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

// csvHeader reports whether the first row has the names of the columns.
func csvHeader(o Options) bool {
	if o.Header != nil {
		return *o.Header
	}
	return o.Label.isName() || o.Weight.isName()
}

func checkCSV(o Options) (problems []schemas.Problem) {
	const wantColumn = "a column's number, from 0, or its name"
	if n, isNumber := o.Label.number(); isNumber && n < 0 {
		problems = append(problems, schemas.Problem{Key: "label", Value: string(o.Label), Want: wantColumn})
	}
	if n, isNumber := o.Weight.number(); isNumber && n < 0 {
		problems = append(problems, schemas.Problem{Key: "weight", Value: string(o.Weight), Want: wantColumn})
	}
	if o.Weight != "" && o.Weight == csvLabel(o) {
		problems = append(problems, schemas.Problem{Key: "weight", Value: string(o.Weight), Want: "another column than the label's"})
	}
	if o.Header != nil && !*o.Header && (o.Label.isName() || o.Weight.isName()) {
		problems = append(problems, schemas.Problem{Key: "header", Value: "false", Want: "true, as a column is given by its name"})
	}
	return problems
}

// maxRowBytes is the maximum length of a row in a file. Without it an open quote
// would read the rest of the file into memory. The widest example that fits a
// message has 215,000 features, 19 bytes each.
const maxRowBytes = 4 << 20

var errLongRow = fmt.Errorf("a row of more than %d MiB (an open quote?)", maxRowBytes>>20)

// role is what a column is for.
type role uint8

const (
	feature role = iota
	label
	weight
	ignored
)

// csvReader reads the rows of a CSV.
type csvReader struct {
	*content
	limit       *rowLimit
	parser      *csv.Reader
	options     Options
	header      []string // nil: the file has none
	roles       []role   // of each column
	labelColumn int      // -1: labels are not read
	words       map[string]string

	record  []string // of the row read last
	line    int      // of the record
	pending bool     // the record is not in a batch yet: the next read returns it
	empty   bool     // there is a header, and no row after it so far
	batch   schemas.ExampleRows
}

// openCSV reads examples with their labels.
func openCSV(files []*content, o Options) (reader, error) {
	r, err := newCSVReader(files[0], o)
	if err != nil {
		return nil, err
	}
	if r.labelColumn, err = r.column(csvLabel(o)); err != nil {
		return nil, err
	}
	r.roles[r.labelColumn] = label
	if o.Weight != "" {
		at, err := r.column(o.Weight)
		if err != nil {
			return nil, err
		}
		if at == r.labelColumn {
			return nil, r.fail(at, errors.New("both the label and the weight"))
		}
		r.roles[at] = weight
	}
	return r, r.countFeatures()
}

// openCSVFeatures reads rows without their labels and weights.
func openCSVFeatures(c *content, o Options, width int) (reader, error) {
	r, err := newCSVReader(c, o)
	if err != nil {
		return nil, err
	}
	// The header shows whether the file has a column that is given by its name.
	// For a column that is given by its number, the number of columns tells.
	var numbered []int
	features := len(r.roles)
	for _, column := range []Column{csvLabel(o), o.Weight} {
		if column == "" {
			continue
		}
		at, err := r.column(column)
		switch {
		case err == nil && column.isName():
			r.roles[at] = ignored
			features--
		case err == nil:
			numbered = append(numbered, at)
		}
	}
	if features != width && features-len(numbered) == width {
		for _, at := range numbered {
			r.roles[at] = ignored
		}
		features = width
	}
	if features != width {
		return nil, r.fail(-1, fmt.Errorf("columns: %d, of these features: %d: expected %d features, with or without the label", len(r.roles), features, width))
	}
	return r, r.countFeatures()
}

// newCSVReader reads the header, or the first row if there is none. Until the
// caller gives them other roles, all columns are features.
func newCSVReader(c *content, o Options) (*csvReader, error) {
	r := &csvReader{content: c, options: o, labelColumn: -1, words: map[string]string{}}
	for _, class := range o.Classes {
		r.words[class] = class
	}
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
	r.limit = &rowLimit{from: c}
	r.parser = csv.NewReader(r.limit)
	r.parser.ReuseRecord = true
	r.parser.FieldsPerRecord = -1 // next checks it, and its error says how many columns are expected
	r.parser.TrimLeadingSpace = true

	err := r.read()
	if err == io.EOF {
		return nil, wholeFile(c.name, errors.New("an empty file"))
	}
	if err != nil {
		return nil, err
	}
	r.roles = make([]role, len(r.record))
	if !csvHeader(o) {
		r.pending = true
		return r, nil
	}
	r.empty = true
	r.header = make([]string, len(r.record))
	for i, name := range r.record {
		r.header[i] = strings.TrimSpace(name)
	}
	return r, nil
}

// column returns the number of a column that is given by number or name.
func (r *csvReader) column(c Column) (int, error) {
	at, isNumber := c.number()
	if isNumber {
		if at >= len(r.roles) {
			return 0, r.fail(at, fmt.Errorf("there are %d columns, counted from 0", len(r.roles)))
		}
		return at, nil
	}
	at = -1
	for i, name := range r.header {
		if name != string(c) {
			continue
		}
		if at >= 0 {
			return 0, r.fail(i, errors.New("the same name twice in the header"))
		}
		at = i
	}
	if at < 0 {
		return 0, r.fail(-1, fmt.Errorf("no column %s in the header", quote(string(c))))
	}
	return at, nil
}

// countFeatures sets the width of the batch, once all columns have their roles.
func (r *csvReader) countFeatures() error {
	for _, role := range r.roles {
		if role == feature {
			r.batch.Cols++
		}
	}
	switch {
	case r.batch.Cols == 0:
		return r.fail(-1, errors.New("no column is a feature"))
	case floatRowBytes(r.batch.Cols) > maxBatchBytes:
		return r.fail(-1, fmt.Errorf("an example of %d features does not fit a message of %d bytes", r.batch.Cols, schemas.MaxMessage))
	}
	return nil
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

// names are those of the header.
func (r *csvReader) names() (names []string) {
	for at, name := range r.header {
		if r.roles[at] == feature {
			names = append(names, name)
		}
	}
	return names
}

// columns has numbers, as a column that is given by its name is the same one.
func (r *csvReader) columns() (c columns) {
	for at, role := range r.roles {
		switch role {
		case label:
			c.Label = strconv.Itoa(at)
		case weight:
			c.Weight = strconv.Itoa(at)
		}
	}
	c.Header = r.header != nil
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
		if len(record) > 1 || len(r.roles) == 1 || strings.TrimSpace(record[0]) != "" {
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
	for size := 0; ; {
		err := r.read()
		switch {
		case err == io.EOF && b.Rows > 0:
			return b, nil
		case err == io.EOF && r.empty:
			return nil, r.fail(-1, errors.New("no row follows the header"))
		case err != nil:
			return nil, err
		case len(r.record) != len(r.roles):
			return nil, r.fail(-1, fmt.Errorf("%d columns, expected %d", len(r.record), len(r.roles)))
		}
		row := floatRowBytes(b.Cols)
		if r.labelColumn >= 0 {
			row += len(r.record[r.labelColumn])
		}
		if row > maxBatchBytes {
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
	for i, field := range r.record {
		if r.roles[i] == ignored {
			continue
		}
		field = strings.TrimSpace(field)
		switch r.roles[i] {
		case feature:
			v, err := r.feature(field)
			if err != nil {
				return r.fail(i, err)
			}
			b.Floats = append(b.Floats, v)
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
	if field == "" && r.options.Missing == MissingMean {
		return float32(math.NaN()), nil
	}
	v, err := number(field)
	if err != nil && r.header == nil && r.line == 1 {
		err = fmt.Errorf("%w (if this is a header: set examples.header)", err)
	}
	return v, err
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
