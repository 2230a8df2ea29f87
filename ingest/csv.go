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

// maxLine bounds the memory that a row takes before it is known to be one: with
// an open quote it would be the rest of the file. The widest example that fits
// a message has 215,000 features, 19 bytes each.
const maxLine = 4 << 20

var errLongRow = fmt.Errorf("a row of more than %d MiB (an open quote?)", maxLine>>20)

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
	limit   *rowLimit
	parser  *csv.Reader
	options Options
	header  []string // nil: none
	roles   []role   // of each column
	labelAt int      // column; -1: none is read
	classes map[string]string

	record []string
	line   int  // of the record
	unread bool // the record is to be read again
	empty  bool // a header, and no row after it yet
	batch  schemas.ExampleRows
}

// newCSVReader reads examples with their labels.
func newCSVReader(c *content, o Options) (*csvReader, error) {
	r, err := openCSV(c, o)
	if err != nil {
		return nil, err
	}
	if r.labelAt, err = r.column(o.label()); err != nil {
		return nil, err
	}
	r.roles[r.labelAt] = label
	if o.Weight != "" {
		at, err := r.column(o.Weight)
		if err != nil {
			return nil, err
		}
		if at == r.labelAt {
			return nil, r.fail(at, errors.New("both the label and the weight"))
		}
		r.roles[at] = weight
	}
	return r, r.count()
}

// newCSVFeatureReader reads examples without their labels and weights.
func newCSVFeatureReader(c *content, o Options, width int) (*csvReader, error) {
	r, err := openCSV(c, o)
	if err != nil {
		return nil, err
	}
	// A column given by name is there or not, as the header says. Whether one
	// given by number is there, the number of columns has to tell.
	var numbered []int
	features := len(r.roles)
	for _, column := range []Column{o.label(), o.Weight} {
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
		return nil, r.fail(-1, fmt.Errorf("%d columns, %d of them features: expected %d features, with or without the label", len(r.roles), features, width))
	}
	return r, r.count()
}

// openCSV reads as far as the first row, and takes all columns for features.
func openCSV(c *content, o Options) (*csvReader, error) {
	r := &csvReader{content: c, options: o, labelAt: -1, classes: map[string]string{}}
	for _, class := range o.Classes {
		r.classes[class] = class
	}
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
	r.limit = &rowLimit{from: c}
	r.parser = csv.NewReader(r.limit)
	r.parser.ReuseRecord = true
	r.parser.FieldsPerRecord = -1 // compared here, to say it better
	r.parser.TrimLeadingSpace = true

	err := r.read()
	if err == io.EOF {
		return nil, wholeFile(c.name, errors.New("an empty file"))
	}
	if err != nil {
		return nil, err
	}
	r.roles = make([]role, len(r.record))
	if !o.hasHeader() {
		r.unread = true
		return r, nil
	}
	r.empty = true
	r.header = make([]string, len(r.record))
	for i, name := range r.record {
		r.header[i] = strings.TrimSpace(name)
	}
	return r, nil
}

// column finds a column by number or name.
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

// count settles the width.
func (r *csvReader) count() error {
	for _, role := range r.roles {
		if role == feature {
			r.batch.Cols++
		}
	}
	switch {
	case r.batch.Cols == 0:
		return r.fail(-1, errors.New("no column with a feature"))
	case floatRowBytes(r.batch.Cols) > messageRoom:
		return r.fail(-1, fmt.Errorf("an example of %d features does not fit a message of %d bytes", r.batch.Cols, schemas.MaxMessage))
	}
	return nil
}

// fail blames a column of the row read last; -1: the row.
func (r *csvReader) fail(column int, err error) error {
	e := &FileError{File: r.name, Line: r.line, Offset: -1, Err: err}
	if column >= 0 {
		if e.Column = strconv.Itoa(column); column < len(r.header) {
			e.Column += " (" + quote(r.header[column]) + ")"
		}
		if column < len(r.record) {
			e.Line, _ = r.parser.FieldPos(column) // a quoted field may have moved it
		}
	}
	return e
}

func (r *csvReader) width() int { return r.batch.Cols }

// names of the features; nil without a header.
func (r *csvReader) names() (names []string) {
	for at, name := range r.header {
		if r.roles[at] == feature {
			names = append(names, name)
		}
	}
	return names
}

func (r *csvReader) contents() []*content { return []*content{r.content} }
func (r *csvReader) close()               { r.Close() }

// read takes the next row, blank ones left out.
func (r *csvReader) read() error {
	for {
		if r.unread {
			r.unread = false
			return nil
		}
		r.limit.left = maxLine
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

// readError says where. A file that could not be read further is the reason,
// whatever the parser thinks of what it got.
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
		if syntax.Line > syntax.StartLine { // an open quote: where it began says more than where the file ends
			place = fmt.Sprintf("from here to line %d, %s", syntax.Line, place)
		}
		return &FileError{File: r.name, Line: syntax.StartLine, Offset: -1, Err: fmt.Errorf("%s: %w", place, syntax.Err)}
	}
	return err // io.EOF
}

func (r *csvReader) next() (*schemas.ExampleRows, error) {
	b := &r.batch
	b.Rows, b.Floats, b.Words, b.Weights = 0, b.Floats[:0], b.Words[:0], b.Weights[:0]
	for size := 0; ; {
		err := r.read()
		switch {
		case err == io.EOF && b.Rows > 0:
			return b, nil
		case err == io.EOF && r.empty:
			return nil, r.fail(-1, errors.New("a header without rows"))
		case err != nil:
			return nil, err
		case len(r.record) != len(r.roles):
			return nil, r.fail(-1, fmt.Errorf("%d columns, expected %d", len(r.record), len(r.roles)))
		}
		row := floatRowBytes(b.Cols)
		if r.labelAt >= 0 {
			row += len(r.record[r.labelAt])
		}
		if row > messageRoom {
			return nil, r.fail(r.labelAt, errors.New("a label that does not fit a message"))
		}
		if b.Rows == r.options.BatchRows || size+row > messageRoom {
			r.unread = true
			return b, nil
		}
		size += row
		r.empty = false
		if err := r.append(); err != nil {
			return nil, err
		}
	}
}

// append puts the row into the batch.
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

var errEmpty = errors.New("an empty field")

// number is a field that has to be a finite float32.
func number(field string) (float32, error) {
	if field == "" {
		return 0, errEmpty
	}
	v, err := strconv.ParseFloat(field, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large for a float32", quote(field))
	case err != nil:
		return 0, fmt.Errorf("%s is not a number", quote(field))
	case v-v != 0: // 0 for a finite v only
		return 0, fmt.Errorf("%s is not a finite number", quote(field))
	}
	return float32(v), nil
}

// maxWords bounds the texts of labels that are kept to be used again.
const maxWords = 1 << 16

// label is the text of a label, the same string for the same text: a slice of
// the row would keep the whole row.
func (r *csvReader) label(field string) (string, error) {
	if word, ok := r.classes[field]; ok {
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
	if len(r.classes) == maxWords {
		clear(r.classes)
	}
	word := strings.Clone(field)
	r.classes[word] = word
	return word, nil
}

// rowLimit is what a CSV is read through: at most left bytes, until they are
// given again.
type rowLimit struct {
	from io.Reader
	left int
	err  error
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
