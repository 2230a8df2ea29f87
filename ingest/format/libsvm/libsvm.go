package libsvm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Format is the format of LIBSVM and SVMlight: each line has a label and the nonzero features, as `index:value`. An index
// is a column number of the file, from 0 or from 1.
func Format() format.Format {
	return format.Format{
		Name:     "libsvm",
		Meaning:  "LIBSVM and SVMlight: a label and `index:value` for each feature that is not 0",
		Patterns: []string{"*.libsvm", "*.svm", "*.svmlight"},
		IsText:   true,
		Files:    1,
		Keys:     []string{"label_separator", "missing_values"},
		Open: func(files []*input.Content, o layout.Options) (format.Reader, error) {
			return newLIBSVMReader(files[0], o)
		},
		Extent:       addExtent,
		OpenFeatures: openLIBSVMFeatures,
	}
}

// openLIBSVMFeatures reads rows to predict, with or without labels.
func openLIBSVMFeatures(c *input.Content, o layout.Options, want layout.Features) (format.Reader, error) {
	if e := o.Extent(); !want.Sparse && e.Width > 0 {
		e.Width = want.Width // of the model
		return newLIBSVMReader(c, o.WithExtent(e))
	}
	if !want.Sparse {
		return nil, input.WholeFile(c.Name, fmt.Errorf("sparse rows: the model was trained on dense rows of %d features",
			want.Width))
	}
	return newLIBSVMReader(c, o)
}

// libsvmReader reads the lines of a LIBSVM file.
type libsvmReader struct {
	layout.Layout // without columns, for labels
	input.LineReader
	text     []byte // last line, valid until the next one is read
	pending  bool   // the last line belongs to the next batch
	spelt    bool   // labels of the first lines are numbers not in their shortest form
	labelled bool   // some line had a label
	bare     bool   // rows to predict have no labels, so an empty line is a row of zeros
	blank    int    // number of empty lines before held
	held     []byte // the line after them; nil: end of file
	batch    examples.Rows
	rows     examples.SparseRows
	dense    layout.Extent // of the features, if the rows are converted to dense ones
}

// newLIBSVMReader reads the first line.
func newLIBSVMReader(c *input.Content, o layout.Options) (*libsvmReader, error) {
	r := &libsvmReader{LineReader: input.LineReader{Content: c}}
	r.Layout = layout.New(o, "", 0, r.fail)
	r.Encoded, r.LabelOf = true, value.NumberLabel // labels of this format are numeric
	r.KeepClasses()
	r.Sparse = 0
	if r.dense = o.Extent(); r.dense.Width > 0 {
		r.Sparse = -1
		r.Features = r.dense.Width
		if err := r.Finish(); err != nil {
			return nil, err
		}
	}
	first, err := input.FirstRows(c)
	if err != nil {
		return nil, err
	}
	r.spelt = speltNumbers(first)
	err = r.read()
	if err == io.EOF {
		return nil, input.WholeFile(c.Name, input.ErrEmpty)
	}
	r.pending = true
	return r, err
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

// Reading also has the label format.
func (r *libsvmReader) Reading() layout.Reading {
	how := r.Layout.Reading()
	how.NumberLabels, how.MissingValues = r.spelt, r.MissingValues()
	if r.dense.Width > 0 {
		how.Dense = &r.dense
	}
	return how
}

// fail returns an error at a field of the last line, counted from 0, the label; -1: at the line.
func (r *libsvmReader) fail(field int, err error) error {
	e := r.FailLine(err)
	if field >= 0 {
		e.Column = strconv.Itoa(field)
	}
	return e
}

// Next reads up to BatchRows rows. A row that does not fit into the message is left for the next batch.
func (r *libsvmReader) Next() (*examples.Rows, error) {
	b := &r.batch
	*b = examples.Rows{Sparse: &r.rows, Words: b.Words[:0], NoLabel: b.NoLabel[:0], LabelLists: b.LabelLists[:0], Floats: b.Floats[:0]}
	if r.rows.Reset(); r.dense.Width > 0 {
		b.Sparse, b.Cols = nil, r.dense.Width
	} else {
		b.Floats = nil
	}
	for size := 0; ; {
		err := r.read()
		switch {
		case err == io.EOF && b.Rows > 0:
			return b, nil
		case err != nil:
			return nil, err
		}
		label, _, _ := r.cutLabel()
		row, err := r.RowBytes(string(label), bytes.Count(r.text, []byte{':'}))
		if err != nil {
			return nil, r.fail(-1, err)
		}
		if b.Rows == r.Options.BatchRows || size+row > layout.MaxBatchBytes {
			r.pending = true
			return b, nil
		}
		size += row
		if err := r.appendLine(b); err != nil {
			return nil, err
		}
	}
}

// read reads the next line with more than a comment; in rows to predict without labels, also an empty one.
func (r *libsvmReader) read() error {
	for empty := 0; ; {
		switch {
		case r.pending:
			r.pending = false
			return nil
		case r.blank > 0:
			r.blank--
			r.text = nil
			return nil
		case r.held != nil:
			r.text, r.held = r.held, nil
			return nil
		}
		line, err := r.ReadLine()
		if err == io.EOF && r.bare && empty > 0 {
			r.blank = empty
			continue
		}
		if err != nil {
			return err
		}
		at := bytes.IndexByte(line, '#')
		if at >= 0 {
			line = line[:at]
		}
		r.text = bytes.TrimSpace(line)
		switch {
		case len(r.text) > 0:
			if _, _, field := r.cutLabel(); r.Options.Predicts() && !r.labelled {
				r.bare, r.labelled = field == 0, field > 0
			}
			if !r.bare || empty == 0 {
				return nil
			}
			r.held, r.blank, empty = r.text, empty, 0
		case at < 0:
			empty++
		}
	}
}

// appendLine appends the row of the last line.
func (r *libsvmReader) appendLine(b *examples.Rows) error {
	label, rest, field := r.cutLabel()
	if !r.Options.Predicts() {
		if err := r.appendLabel(b, label, field > 0); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(rest, []byte(queryField)) { // the query id, for ranking
		_, rest = cutField(rest)
		field++
	}
	features := r.appendZeros(b)
	for last := int64(-1); len(rest) > 0; field++ {
		var token []byte
		token, rest = cutField(rest)
		index, number, err := parsePair(token)
		if err == nil {
			err = examples.CheckIndex(index, last)
		}
		if err != nil {
			return r.fail(field, err)
		}
		if last = index; features == nil {
			r.rows.Append(int32(index), number)
			continue
		}
		at, err := r.dense.Place(index)
		if err != nil {
			return r.fail(field, err)
		}
		if at >= 0 {
			features[at] = number
		}
	}
	r.rows.End()
	b.Rows++
	return nil
}

// queryField is the prefix of an SVMlight field that is not a feature.
const queryField = "qid:"

// cutLabel returns the first field of the last line, if it is not a feature, the rest, and the field number at which the
// rest starts.
func (r *libsvmReader) cutLabel() (label, rest []byte, field int) {
	token, after := cutField(r.text)
	if bytes.IndexByte(token, ':') >= 0 {
		return nil, r.text, 0
	}
	return token, after, 1
}

// appendLabel appends the label or labels of the last line; there reports whether the line has a field for it.
func (r *libsvmReader) appendLabel(b *examples.Rows, token []byte, there bool) error {
	if r.Options.Several() {
		labels, err := r.Split(string(token))
		if err != nil {
			return r.fail(0, err)
		}
		b.LabelLists = append(b.LabelLists, labels)
		return nil
	}
	if !there {
		first, _ := cutField(r.text)
		return r.fail(0, fmt.Errorf("%s: expected a label before the features", value.Quote(string(first))))
	}
	if bytes.IndexByte(token, ',') >= 0 {
		return r.fail(0, fmt.Errorf("labels %s: expected one label, or examples.labels: several", value.Quote(string(token))))
	}
	word, known := r.Labels[string(token)] // does not allocate
	if !known {
		var err error
		if word, err = r.Word(string(token)); err != nil {
			return r.fail(0, err)
		}
	}
	layout.AppendLabel(b, word)
	return nil
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
func parsePair(token []byte) (index int64, number float32, err error) {
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
	v, err := value.Number(string(token[colon+1:]))
	if number = float32(v); err != nil {
		return 0, 0, fmt.Errorf("%s: expected index:value: %w", value.Quote(string(token)), err)
	}
	if number-number != 0 { // 0 only for finite numbers
		return 0, 0, fmt.Errorf("%s: %v is not a finite float32", value.Quote(string(token)), v)
	}
	return index, number, nil
}
