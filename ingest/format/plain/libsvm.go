package plain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// LIBSVM is the format of LIBSVM and SVMlight: each line has a label and the nonzero features, as `index:value`. An index
// is a column number of the file, from 0 or from 1.
func LIBSVM() format.Format {
	return format.Format{
		Name:     "libsvm",
		Meaning:  "LIBSVM and SVMlight: a label and `index:value` for each feature that is not 0",
		Patterns: []string{"*.libsvm", "*.svm", "*.svmlight"},
		IsText:   true,
		IsSparse: true,
		Files:    1,
		Label:    "0", // the first of two columns that no option names
		Table:    openLIBSVM,
	}
}

// libsvmSource reads the lines of a LIBSVM file: a column of labels, and one of sparse rows, or of lists if the rows are converted to
// dense ones.
type libsvmSource struct {
	input.LineReader
	options layout.Options
	dense   layout.Extent // of the features, if the rows are converted to dense ones
	text    []byte        // last line, valid until the next one is read
	bare    bool          // rows to predict have no labels, so an empty line is a row of zeros
	empty   int           // number of empty lines before first that are in no block yet
	first   []byte        // the first other line; nil: it is in a block
}

// openLIBSVM reads the first line. Labels of this format are numbers.
func openLIBSVM(c *input.Content, o layout.Options, want *layout.Features) (format.Table, error) {
	s := &libsvmSource{LineReader: input.LineReader{Content: c}, options: o, dense: o.Found.Extent}
	switch {
	case want == nil || want.Sparse:
	case s.dense.Width == 0:
		return format.Table{}, input.WholeFile(c.Name, fmt.Errorf("sparse rows: the model was trained on dense rows of %d features", want.Width))
	default:
		s.dense.Width = want.Width
	}
	first, err := input.FirstRows(c)
	if err != nil {
		return format.Table{}, err
	}
	spelt := speltNumbers(first)
	s.bare = o.Mode == layout.Predicting
	empty := 0
	for err = s.read(); err == nil && len(s.text) == 0; err = s.read() {
		empty++
	}
	if err == io.EOF {
		err = input.WholeFile(c.Name, input.ErrEmpty)
	}
	if s.first = s.text; s.bare {
		s.empty = empty
	}
	return format.Table{Source: s, LabelOf: value.NumberLabel, Describe: func(how *layout.Reading) {
		if how.Label, how.NumberLabels = "", spelt; s.dense.Width > 0 {
			how.Dense = &s.dense
		}
	}}, err
}

// Fields implements tabular.Source.
func (s *libsvmSource) Fields() []tabular.Field {
	rows := tabular.Field{Kind: tabular.Pairs, Type: "index and value"}
	if s.dense.Width > 0 {
		rows = tabular.Field{Kind: tabular.List, Type: "numbers", Length: s.dense.Width}
	}
	return []tabular.Field{{Kind: tabular.Text, Type: "text", Digits: true}, rows}
}

// Read implements tabular.Source.
func (s *libsvmSource) Read(n int, wanted []bool, b *tabular.Block) error {
	b.Reset(2)
	for bytes := 0; b.Rows < n && bytes < tabular.BlockBytes; {
		if err := s.read(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		label, rest, field := s.cutLabel()
		if wanted[0] {
			if err := s.checkLabel(label, field > 0); err != nil {
				return s.fail(0, err)
			}
		}
		features, err := s.features(rest, field)
		if err != nil {
			return err
		}
		row := b.Add(2)
		row[0], row[1], b.Lines = tabular.Word(string(label)), features, append(b.Lines, s.Line)
		bytes += len(s.text) + 8*s.dense.Width
	}
	return nil
}

// checkLabel returns an error unless a line has one label, or rows may have several. there reports whether the line has a label field.
func (s *libsvmSource) checkLabel(token []byte, there bool) error {
	switch {
	case s.options.Several():
	case !there:
		first, _ := cutField(s.text)
		return fmt.Errorf("%s: expected a label before the features", value.Quote(string(first)))
	case bytes.IndexByte(token, ',') >= 0:
		return fmt.Errorf("labels %s: expected one label, or examples.labels: several", value.Quote(string(token)))
	}
	return nil
}

// features returns the features of a line, from a field on.
func (s *libsvmSource) features(rest []byte, field int) (row tabular.Cell, err error) {
	indices, numbers := []int64(nil), make([]float64, s.dense.Width)
	if s.dense.Width == 0 {
		n := bytes.Count(rest, []byte{':'})
		indices, numbers = make([]int64, 0, n), make([]float64, 0, n)
	}
	if bytes.HasPrefix(rest, []byte(queryField)) { // the query id, for ranking
		_, rest = cutField(rest)
		field++
	}
	for last := int64(-1); len(rest) > 0; field++ {
		var token []byte
		token, rest = cutField(rest)
		index, number, err := parsePair(token)
		if err == nil {
			err = examples.CheckIndex(index, last)
		}
		if err != nil {
			return row, s.fail(field, err)
		}
		if last = index; s.dense.Width == 0 {
			indices, numbers = append(indices, index), append(numbers, number)
			continue
		}
		at, err := s.dense.Place(index)
		if err != nil {
			return row, s.fail(field, err)
		}
		if at >= 0 {
			numbers[at] = number
		}
	}
	return tabular.Numbers(indices, numbers), nil
}

// speltNumbers reports whether labels of some lines are numbers not in their shortest form.
func speltNumbers(lines []byte) bool {
	for line := range bytes.Lines(lines) {
		token, _ := cutField(bytes.TrimSpace(line))
		for label := range bytes.SplitSeq(token, []byte{','}) {
			if text := string(label); !bytes.ContainsAny(token, ":#") && value.NumberLabel(text) != text {
				return true
			}
		}
	}
	return false
}

// fail returns an error at a field of the last line, counted from 0, the label; -1 means the whole line.
func (s *libsvmSource) fail(field int, err error) error {
	e := s.FailLine(err)
	if field >= 0 {
		e.Column = strconv.Itoa(field)
	}
	return e
}

// read reads the next line with more than a comment; in rows to predict without labels, also an empty one.
func (s *libsvmSource) read() error {
	switch {
	case s.empty > 0:
		s.empty, s.text = s.empty-1, nil
		return nil
	case s.first != nil:
		s.text, s.first = s.first, nil
		return nil
	}
	for {
		line, err := s.ReadLine()
		if err != nil {
			return err
		}
		at := bytes.IndexByte(line, '#')
		if at >= 0 {
			line = line[:at]
		}
		if s.text = bytes.TrimSpace(line); len(s.text) > 0 {
			_, _, field := s.cutLabel()
			s.bare = s.bare && field == 0
			return nil
		}
		if at < 0 && s.bare {
			return nil
		}
	}
}

// queryField is the prefix of an SVMlight field that is not a feature.
const queryField = "qid:"

// cutLabel returns the first field of the last line, if it is not a feature, the rest, and the field number at which the
// rest starts.
func (s *libsvmSource) cutLabel() (label, rest []byte, field int) {
	token, after := cutField(s.text)
	if bytes.IndexByte(token, ':') >= 0 {
		return nil, s.text, 0
	}
	return token, after, 1
}

// cutField cuts the first field off a line.
func cutField(line []byte) (field, rest []byte) {
	at := bytes.IndexAny(line, " \t")
	if at < 0 {
		return line, nil
	}
	return line[:at], bytes.TrimLeft(line[at:], " \t")
}

// parsePair parses `index:value`.
func parsePair(token []byte) (index int64, number float64, err error) {
	colon := bytes.IndexByte(token, ':')
	if colon < 0 {
		return 0, 0, fmt.Errorf("%s: expected index:value", value.Quote(string(token)))
	}
	index, err = strconv.ParseInt(string(token[:colon]), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && (index < 0 || index >= examples.MaxColumns):
		return 0, 0, fmt.Errorf("index %s: expected a whole number from 0 to %d", value.Quote(string(token[:colon])), examples.MaxColumns-1)
	case err != nil:
		return 0, 0, fmt.Errorf("%s: expected index:value, the index a whole number", value.Quote(string(token)))
	}
	if number, err = value.Number(string(token[colon+1:])); err != nil {
		return 0, 0, fmt.Errorf("%s: expected index:value: %w", value.Quote(string(token)), err)
	}
	if single := float32(number); single-single != 0 { // 0 only for finite numbers
		return 0, 0, fmt.Errorf("%s: %v is not a finite float32", value.Quote(string(token)), number)
	}
	return index, number, nil
}
