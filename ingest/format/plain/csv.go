// Package plain has the formats that need no library of their own: CSV, JSON, LIBSVM, the idx files of MNIST, and photographs in folders
// and archives.
package plain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// CSV is CSV (RFC 4180), one example in each row. In messages there is no header. With columns.use a row may have more columns than are
// named. Otherwise all rows have as many as the first one.
func CSV() format.Format {
	return format.Format{
		Name:      "csv",
		Meaning:   "one example a row",
		Values:    csvValues,
		Patterns:  []string{"*.csv", "*.tsv"},
		IsText:    true,
		Label:     csvLabel,
		HasHeader: true,
		Files:     1,
		Table:     openCSV,
		Width:     csvWidth,
		Decoder: func(o format.Options) (format.Decoder, error) {
			r := &csvMessages{comma: ','}
			if o.Delimiter != "" {
				r.comma = []rune(o.Delimiter)[0]
			}
			return format.Decoder{Decode: r.decode}, nil
		},
	}
}

const csvValues = "one example a line, without a header"

// csvLabel is the default column of the label.
const csvLabel = "0"

var errLongRow = fmt.Errorf("a row of more than %d MiB (an open quote?)", input.MaxRowBytes>>20)

// csvSource reads the rows of a CSV. All values are texts.
type csvSource struct {
	*input.Content
	options layout.Options
	limit   *rowLimit
	parser  *csv.Reader
	names   []string // nil: there is no header

	record  []string                    // last row
	line    int                         // of the record
	width   int                         // number of columns; 0: not known yet
	pending bool                        // the record is the next row
	end     int                         // in a file with one column: last line of the row
	blanks  int                         // in such a file: empty lines that are the next rows
	held    []string                    // the row after them; nil: end of file
	doubt   func(record []string) error // returns the reason why the fields of a row may not be columns; nil: no check
}

// openCSV reads the first row, and decides whether it is a header.
func openCSV(c *input.Content, o layout.Options, want *layout.Features) (format.Table, error) {
	s := &csvSource{Content: c, options: o, limit: &rowLimit{from: c}}
	c.SkipMark()
	first, err := input.FirstRows(c)
	if err != nil {
		return format.Table{}, err
	}
	comma, err := delimiterOf(o, c.Name, first)
	if err != nil {
		return format.Table{}, err
	}
	first = bytes.Clone(first)
	s.parser = newParser(s.limit, comma)
	if err := s.read(); err == io.EOF {
		return format.Table{}, input.ErrEmpty
	} else if err != nil {
		return format.Table{}, err
	}
	s.pending, s.width, s.end = true, len(s.record), s.line+strings.Count(s.record[0], "\n")
	header := hasHeader(o)
	if want != nil {
		if header, err = s.headerToPredict(*want, first); err != nil {
			return format.Table{}, err
		}
	}
	line := s.line
	switch {
	case header:
		s.pending, s.names = false, make([]string, s.width)
		for i, name := range s.record {
			s.names[i] = strings.Clone(strings.TrimSpace(name))
		}
	case want != nil && s.width == 1:
		s.pending, s.blanks, s.held, s.end = false, s.line-1, s.record, 0
	}
	return format.Table{Source: s, HasNames: header, Line: line, Describe: func(how *layout.Reading) {
		if how.Header = header; comma != ',' {
			how.Delimiter = string(comma)
		}
	}}, nil
}

// hasHeader reports whether the first row of training files is a header.
func hasHeader(o layout.Options) bool {
	if o.Header != nil {
		return *o.Header
	}
	return slices.ContainsFunc(o.NamedColumns(), layout.Column.IsName)
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

// fail returns an error at the last row.
func (s *csvSource) fail(err error) error {
	return &input.Error{File: s.Name, Line: s.line, Offset: -1, Err: err}
}

// Fields implements tabular.Source. Any text may be a number or a word.
func (s *csvSource) Fields() []tabular.Field {
	fields := make([]tabular.Field, s.width)
	for i := range fields {
		if fields[i] = (tabular.Field{Kind: tabular.Text, Digits: true}); s.names != nil {
			fields[i].Name = s.names[i]
		}
	}
	return fields
}

// Read implements tabular.Source.
func (s *csvSource) Read(n int, _ []bool, b *tabular.Block) error {
	b.Reset(s.width)
	for bytes := 0; b.Rows < n && bytes < tabular.BlockBytes; {
		if err := s.read(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if s.doubt != nil {
			if err := s.doubt(s.record); err != nil {
				return err
			}
		}
		row := b.Add(s.width)
		for i, field := range s.record {
			row[i] = tabular.Word(field)
			bytes += len(field)
		}
		b.Lines = append(b.Lines, s.line)
	}
	return nil
}

// read reads the next row that is not blank. All rows have as many columns as the first one. With one column, an empty line is a row
// without a value, which the parser skips; the last line counts only if it ends with a line end of its own.
func (s *csvSource) read() error {
	for {
		switch {
		case s.pending:
			s.pending = false
			return nil
		case s.blanks > 0:
			s.blanks--
			s.end++
			s.record, s.line = []string{""}, s.end
			return nil
		case s.held != nil:
			s.record, s.line, s.held = s.held, s.end+1, nil
			s.end = s.line + strings.Count(s.record[0], "\n")
			return nil
		}
		s.limit.left = input.MaxRowBytes
		record, err := s.parser.Read()
		if err == io.EOF && s.width == 1 && s.limit.lines() > s.end {
			s.blanks = s.limit.lines() - s.end
			continue
		}
		if err != nil {
			return s.readError(err)
		}
		line, _ := s.parser.FieldPos(0)
		if s.width == 1 && len(record) == 1 {
			s.blanks, s.held = line-s.end-1, record
			continue
		}
		if s.record, s.line = record, line; len(record) == 1 && strings.TrimSpace(record[0]) == "" {
			continue
		}
		if s.width > 0 && len(record) != s.width {
			return s.fail(fmt.Errorf("%d columns, expected %d", len(record), s.width))
		}
		return nil
	}
}

// readError adds the position to a parser error. If the file could not be read, it returns that error instead.
func (s *csvSource) readError(err error) error {
	switch cause := s.limit.err; {
	case cause == errLongRow:
		s.line++
		return s.fail(cause)
	case cause != nil && cause != io.EOF:
		return cause
	}
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		place := fmt.Sprintf("byte %d", syntax.Column)
		if syntax.Line > syntax.StartLine { // an open quote: its start is more helpful than the last line
			place = fmt.Sprintf("from here to line %d, %s", syntax.Line, place)
		}
		return &input.Error{File: s.Name, Line: syntax.StartLine, Offset: -1, Err: fmt.Errorf("%s: %w", place, syntax.Err)}
	}
	return err // io.EOF
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

// delimiters are the supported automatic delimiters. The first is that of RFC 4180.
const delimiters = ",;\t|"

// delimiterOf returns the delimiter of a file: that of the options, or one detected in its first rows. If several
// delimiters give rows of equal length, it is the one with the most numeric fields. It returns a *input.Error if that is
// ambiguous.
func delimiterOf(o layout.Options, file string, first []byte) (rune, error) {
	if o.Delimiter != "" {
		return []rune(o.Delimiter)[0], nil
	}
	best, maximum, ways := ',', -1.0, []string(nil)
	for _, delimiter := range delimiters {
		columns, numbers := tryDelimiter(first, delimiter)
		if columns < 2 || numbers < maximum {
			continue
		}
		if numbers > maximum {
			ways = nil
		}
		best, maximum, ways = delimiter, numbers, append(ways, fmt.Sprintf("%q (%d columns)", string(delimiter), columns))
	}
	if len(ways) > 1 {
		err := fmt.Errorf("several delimiters fit its rows, %s: set %s", strings.Join(ways, " and "), o.Key("delimiter"))
		return 0, &input.Error{File: file, Line: 1, Offset: -1, Err: err}
	}
	return best, nil
}

// detectRows is the number of rows used to detect the delimiter.
const detectRows = 20

// tryDelimiter returns the number of columns of the first rows with a delimiter, and the fraction of numeric fields, with
// a decimal point or comma. It returns 0 columns if the rows differ, or can't be parsed.
func tryDelimiter(first []byte, delimiter rune) (columns int, numbers float64) {
	parser := newParser(bytes.NewReader(first), delimiter)
	fields := 0
	for row := 0; row < detectRows; {
		record, err := parser.Read()
		switch {
		case err == io.EOF:
			return columns, numbers / max(1, float64(fields))
		case err != nil:
			return 0, 0
		case len(record) == 1 && strings.TrimSpace(record[0]) == "":
			continue // a blank row
		case row > 0 && len(record) != columns:
			return 0, 0
		}
		columns = len(record)
		row++
		for _, field := range record {
			field = strings.TrimSpace(field)
			if _, err := value.Number(field); err == nil || layout.DecimalComma.MatchString(field) {
				numbers++
			}
			fields++
		}
	}
	return columns, numbers / float64(fields)
}

// csvWidth returns the number of columns to read of a row with n columns.
func csvWidth(o layout.Options, n int) (columns int, exact bool, err error) {
	if len(o.Columns.Use) == 0 {
		return n, true, nil
	}
	for _, c := range o.NamedColumns() {
		if at, err := strconv.Atoi(string(c)); err == nil {
			columns = max(columns, at+1)
		}
	}
	if columns > n {
		return 0, false, fmt.Errorf("%d columns, expected at least %d", n, columns)
	}
	return columns, false, nil
}

// csvMessages reads lines into cells that the next lines reuse.
type csvMessages struct {
	comma rune
	cells []tabular.Cell
	rows  []tabular.Cell
}

// decode returns the rows of a value. A syntax error has the line, from 1, and the byte.
func (r *csvMessages) decode(_ context.Context, p format.Payload) (all tabular.Cell, err error) {
	parser := newParser(bytes.NewReader(p.Value), r.comma)
	r.cells, r.rows = r.cells[:0], r.rows[:0]
	for {
		record, err := parser.Read()
		if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
			return all, fmt.Errorf("line %d, byte %d: %w", syntax.Line, syntax.Column, syntax.Err)
		}
		switch {
		case err == io.EOF && len(r.rows) == 0:
			return all, errors.New("an empty value: expected " + csvValues)
		case err == io.EOF:
			return tabular.Items(r.rows), nil
		case err != nil:
			return all, err
		case len(record) == 1 && strings.TrimSpace(record[0]) == "": // a blank row
			continue
		}
		first := len(r.cells)
		for _, text := range record {
			r.cells = append(r.cells, tabular.Word(text))
		}
		r.rows = append(r.rows, tabular.Items(r.cells[first:len(r.cells):len(r.cells)]))
	}
}

// headerToPredict reports whether the first row of a file without labels and weights is a header. first are the first rows.
func (s *csvSource) headerToPredict(want layout.Features, first []byte) (bool, error) {
	o := s.options
	switch {
	case o.Mixed():
		return s.findNames()
	case o.Text != "":
		return s.findText(want, first)
	case o.Header != nil:
		return *o.Header, nil
	}
	return s.findHeader(want)
}

// has reports whether the first row names a column.
func (s *csvSource) has(name string) bool {
	return slices.ContainsFunc(s.record, func(field string) bool { return strings.TrimSpace(field) == name })
}

// findText reports whether the first row of texts names their column. In a file without a header, only the label may be
// omitted.
func (s *csvSource) findText(want layout.Features, first []byte) (header bool, err error) {
	o := s.options
	if o.Header != nil {
		header = *o.Header
	} else if o.Text.IsName() {
		header = s.has(string(o.Text))
	}
	switch {
	case header:
		return true, nil
	case o.Header == nil && o.Text.IsName() && s.mayBeHeader(first):
		return false, s.fail(fmt.Errorf("%s may be a header or a text: set --header or --header=false, or call the column %s",
			value.Quote(strings.TrimSpace(s.record[0])), value.Quote(string(o.Text))))
	case s.width > 1 && o.Text.IsName():
		return false, s.noHeader([]string{string(o.Text)})
	case s.width > 1:
		s.doubt = s.fieldsOf(want)
	}
	return false, nil
}

// fieldsOf returns a function that returns the reason why a row without names may be one text that contains the delimiter,
// rather than the columns of the training files: its other columns have no labels of the model, or no numbers.
func (s *csvSource) fieldsOf(want layout.Features) func(record []string) error {
	text, _ := s.options.Text.Number()
	missing, noLabels := value.MissingOf(s.options.MissingValues), s.options.MissingLabels()
	labels := map[string]bool{}
	for _, label := range want.Labels {
		labels[label], labels[value.Label(label)] = true, true
	}
	inDoubt := func(field, what string) error {
		return s.fail(fmt.Errorf("%s is %s, so this may be a text that contains %q, not the columns of the training "+
			"files: put texts into double quotes, add a header and --header, or keep only the texts",
			value.Quote(strings.TrimSpace(field)), what, string(s.parser.Comma)))
	}
	isLabel := func(field string) bool { return noLabels.Has(field) || labels[value.Label(field)] }
	isNumber := func(field string) bool {
		_, err := value.Number(field)
		return err == nil || missing.Has(field)
	}
	columns := []layout.Column{cmp.Or(s.options.Label, csvLabel)}
	if others := slices.Concat(s.options.Targets, s.options.LabelColumns); len(others) > 0 {
		columns, isLabel = nil, isNumber
		for _, name := range others {
			columns = append(columns, layout.Column(name))
		}
	}
	return func(record []string) error {
		for _, c := range columns {
			at, isNumber := c.Number()
			if !isNumber || at >= len(record) || at == text {
				return inDoubt(record[0], "before the text, where the label is not")
			}
			fields := []string{record[at]}
			if s.options.Several() && len(s.options.LabelColumns) == 0 {
				fields = strings.FieldsFunc(record[at], func(c rune) bool { return strings.ContainsRune(cmp.Or(s.options.LabelSeparator, ",;|"), c) })
			}
			for _, field := range fields {
				if !isLabel(field) {
					return inDoubt(field, "no label of the model")
				}
			}
		}
		return nil
	}
}

// findHeader reports whether the first row is a header. If the options don't say, the row is inspected. A row is never
// skipped in doubt: there must be an output row for each input row.
func (s *csvSource) findHeader(want layout.Features) (bool, error) {
	missing := value.MissingOf(s.options.MissingValues)
	row := make([]string, len(s.record))
	for i, field := range s.record {
		row[i] = strings.TrimSpace(field)
	}
	named := 0
	for _, column := range want.Columns {
		if slices.Contains(row, column.Source()) {
			named++
		}
	}
	numbers := !slices.ContainsFunc(row, func(field string) bool {
		_, err := value.Number(field)
		return err != nil && !missing.Has(field)
	})
	switch {
	case want.Columns == nil && !hasHeader(s.options):
		return false, nil // as in the training files
	case numbers && named == 0 && want.Columns != nil:
		return false, nil
	case !numbers && (named > 0 || want.Columns == nil):
		return true, nil // layByName reports missing names
	}
	return false, s.fail(errors.New("the first row may be a header or an example: set --header or --header=false"))
}

// findNames reports whether the first row of mixed rows is a header: it has all column names of the options.
func (s *csvSource) findNames() (header bool, err error) {
	o := s.options
	if o.Header != nil {
		return *o.Header, nil
	}
	var named, lacking []string
	for _, c := range append(slices.Clone(o.Categorical), string(o.Text)) {
		switch {
		case !layout.Column(c).IsName():
		case s.has(c):
			named = append(named, c)
		default:
			lacking = append(lacking, c)
		}
	}
	if hasHeader(o) && len(named) == 0 && len(lacking) > 0 {
		return false, s.noHeader(lacking)
	}
	return hasHeader(o), nil // the error of lacking names comes later
}

// noHeader returns the error of a file whose first row has none of the column names of the model.
func (s *csvSource) noHeader(names []string) error {
	return s.fail(fmt.Errorf("the first row does not name the columns that the model needs: expected a header with %s",
		layout.SomeNames(names)))
}

// mayBeHeader reports whether the first row of a file with one column looks like a name, and the second one does not.
func (s *csvSource) mayBeHeader(first []byte) bool {
	if len(s.record) != 1 || !isName.MatchString(strings.TrimSpace(s.record[0])) {
		return false
	}
	parser := newParser(bytes.NewReader(first), s.parser.Comma)
	parser.ReuseRecord = false
	_, err := parser.Read()
	second, again := parser.Read()
	return err == nil && again == nil && len(second) == 1 && !isName.MatchString(strings.TrimSpace(second[0]))
}

// isName matches typical column names.
var isName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*$`)
