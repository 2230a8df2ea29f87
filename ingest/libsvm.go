package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// libsvmFormat is the format of LIBSVM and SVMlight: in each line a label and the features that are not 0, as `index:value`. An index is the
// number of a column as the file has it, from 0 or from 1.
func libsvmFormat() format {
	return format{
		name:         "libsvm",
		meaning:      "LIBSVM and SVMlight: sparse rows, a label and `index:value` for each feature that is not 0; with several labels `1,5,7` in the place of one",
		patterns:     []string{"*.libsvm", "*.svm", "*.svmlight"},
		files:        1,
		keys:         []string{"label_separator"},
		open:         func(files []*content, o Options) (reader, error) { return newLIBSVMReader(files[0], o) },
		openFeatures: openLIBSVMFeatures,
	}
}

// openLIBSVMFeatures reads rows to predict, with or without labels.
func openLIBSVMFeatures(c *content, o Options, want Features) (reader, error) {
	if !want.Sparse {
		return nil, wholeFile(c.name, fmt.Errorf("sparse rows: the model was trained on rows of %d features, none of them left out", want.Width))
	}
	return newLIBSVMReader(c, o)
}

// libsvmReader reads the lines of a LIBSVM file.
type libsvmReader struct {
	layout // of no columns, for its labels
	lineReader
	text    []byte // of the line read last, valid until the next is read
	pending bool   // the line read last is of the next batch
	batch   schemas.ExampleRows
	rows    schemas.SparseRows
}

// newLIBSVMReader reads the first line.
func newLIBSVMReader(c *content, o Options) (*libsvmReader, error) {
	r := &libsvmReader{lineReader: lineReader{content: c}}
	r.layout = newLayout(o, "", 0, r.fail)
	err := r.read()
	if err == io.EOF {
		return nil, wholeFile(c.name, errors.New("an empty file"))
	}
	r.pending = true
	return r, err
}

// fail returns an error at a field of the line read last, counted from 0, the label; -1: at the line.
func (r *libsvmReader) fail(field int, err error) error {
	e := r.failLine(err)
	if field >= 0 {
		e.Column = strconv.Itoa(field)
	}
	return e
}

// next reads up to BatchRows rows. A row that does not fit the message is left for the next batch.
func (r *libsvmReader) next() (*schemas.ExampleRows, error) {
	b := &r.batch
	*b = schemas.ExampleRows{Sparse: &r.rows, Words: b.Words[:0], LabelLists: b.LabelLists[:0]}
	r.rows.Reset()
	for size := 0; ; {
		err := r.read()
		switch {
		case err == io.EOF && b.Rows > 0:
			return b, nil
		case err != nil:
			return nil, err
		}
		label, _, _ := r.cutLabel()
		row, err := r.sparseRowBytes(string(label), bytes.Count(r.text, []byte{':'}))
		if err != nil {
			return nil, r.fail(-1, err)
		}
		if b.Rows == r.options.BatchRows || size+row > maxBatchBytes {
			r.pending = true
			return b, nil
		}
		size += row
		if err := r.appendLine(b); err != nil {
			return nil, err
		}
	}
}

// read reads the next line that has more than a comment.
func (r *libsvmReader) read() error {
	for {
		if r.pending {
			r.pending = false
			return nil
		}
		line, err := r.readLine()
		if err != nil {
			return err
		}
		if at := bytes.IndexByte(line, '#'); at >= 0 {
			line = line[:at]
		}
		if r.text = bytes.TrimSpace(line); len(r.text) > 0 {
			return nil
		}
	}
}

// appendLine appends the row of the line read last.
func (r *libsvmReader) appendLine(b *schemas.ExampleRows) error {
	label, rest, field := r.cutLabel()
	if !r.options.predicts {
		if err := r.appendLabel(b, label, field > 0); err != nil {
			return err
		}
	}
	for last := int64(-1); len(rest) > 0; field++ {
		var token []byte
		token, rest = cutField(rest)
		index, value, err := parsePair(token)
		if err == nil {
			err = schemas.CheckIndex(index, last)
		}
		if err != nil {
			return r.fail(field, err)
		}
		last = index
		r.rows.Append(int32(index), value)
	}
	r.rows.End()
	b.Rows++
	return nil
}

// cutLabel returns the first field of the line read last, if it is no feature, the rest, and the number of the field that the rest begins with.
func (r *libsvmReader) cutLabel() (label, rest []byte, field int) {
	token, after := cutField(r.text)
	if bytes.IndexByte(token, ':') >= 0 {
		return nil, r.text, 0
	}
	return token, after, 1
}

// appendLabel appends the label of the line read last, or its labels; there says whether the line has a field for it.
func (r *libsvmReader) appendLabel(b *schemas.ExampleRows, token []byte, there bool) error {
	if r.options.several() {
		labels, err := r.split(string(token))
		if err != nil {
			return r.fail(0, err)
		}
		b.LabelLists = append(b.LabelLists, labels)
		return nil
	}
	if !there {
		first, _ := cutField(r.text)
		return r.fail(0, fmt.Errorf("%s: expected a label before the features", quote(string(first))))
	}
	if bytes.IndexByte(token, ',') >= 0 {
		return r.fail(0, fmt.Errorf("labels %s: expected one label; examples.labels: several takes several", quote(string(token))))
	}
	word, known := r.labels[string(token)] // does not allocate
	if !known {
		var err error
		if word, err = r.word(string(token)); err != nil {
			return r.fail(0, err)
		}
	}
	b.Words = append(b.Words, word)
	return nil
}

// cutField cuts the first field off a line that begins with it.
func cutField(line []byte) (field, rest []byte) {
	at := bytes.IndexAny(line, " \t")
	if at < 0 {
		return line, nil
	}
	return line[:at], bytes.TrimLeft(line[at:], " \t")
}

// parsePair parses `index:value`.
func parsePair(token []byte) (index int64, value float32, err error) {
	colon := bytes.IndexByte(token, ':')
	if colon < 0 {
		return 0, 0, fmt.Errorf("%s: expected index:value", quote(string(token)))
	}
	index, err = strconv.ParseInt(string(token[:colon]), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && (index < 0 || index >= schemas.MaxColumns):
		return 0, 0, fmt.Errorf("index %s: expected a whole number from 0 to %d", quote(string(token[:colon])), schemas.MaxColumns-1)
	case err != nil:
		return 0, 0, fmt.Errorf("%s: expected index:value, the index a whole number", quote(string(token)))
	}
	v, err := strconv.ParseFloat(string(token[colon+1:]), 32)
	if value = float32(v); err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, 0, fmt.Errorf("%s: expected index:value, the value a number", quote(string(token)))
	}
	if v-v != 0 { // only for a finite number is the difference 0
		return 0, 0, fmt.Errorf("value %s: expected a finite number of at most %.3g in size", quote(string(token[colon+1:])), math.MaxFloat32)
	}
	return index, value, nil
}
