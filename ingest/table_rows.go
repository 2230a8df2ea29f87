package ingest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// next returns the next rows of the block that fit a message together, and reads a block when all are in batches.
func (r *tableReader) next() (rows *schemas.ExampleRows, err error) {
	defer damaged(r.name, &err)
	if r.emitted == r.block.Rows {
		if err := r.readBlock(); err != nil {
			return nil, err
		}
	}
	b := &r.block
	from, to, size := r.emitted, r.emitted, len(r.tableText)
	for ; to < b.Rows; to++ {
		label := ""
		switch {
		case len(b.Words) > 0:
			label = b.Words[to]
		case len(b.LabelLists) > 0:
			label = strings.Join(b.LabelLists[to], ",")
		}
		row, err := r.exampleBytes(to, label)
		if err != nil {
			return nil, r.fail(r.label, r.failAt(to, err))
		}
		if size += row; size > maxBatchBytes {
			break
		}
	}
	r.emitted = to
	r.batch = schemas.ExampleRows{Rows: to - from, Cols: b.Cols, Columns: r.layout.table, Floats: b.Floats[from*b.Cols : to*b.Cols]}
	if r.isSparse() {
		r.cutSparse(from, to)
	}
	if len(b.Words) > 0 {
		r.batch.Words = b.Words[from:to]
	}
	if len(b.LabelLists) > 0 {
		r.batch.LabelLists = b.LabelLists[from:to]
	}
	if len(b.Numbers) > 0 {
		r.batch.Numbers = b.Numbers[from:to]
	}
	if k := len(r.options.Targets); len(b.Targets) > 0 {
		r.batch.Targets = b.Targets[from*k : to*k]
	}
	if len(b.Weights) > 0 {
		r.batch.Weights = b.Weights[from:to]
	}
	return &r.batch, nil
}

// readBlock reads the next rows, at most as many as fit a message without the text of their labels. After the last row it reads
// the file to its end, for its digest, and returns io.EOF.
func (r *tableReader) readBlock() error {
	b := &r.block
	b.Cols = r.features
	r.read += int64(b.Rows)
	n, err := r.table.begin(min(r.options.BatchRows, (maxBatchBytes-len(r.tableText))/(floatRowBytes(r.features)+r.targetBytes())))
	if err != nil {
		return r.fail(-1, err)
	}
	b.Rows, r.emitted = n, 0
	if n == 0 {
		if r.read == 0 {
			return r.fail(-1, errors.New("no rows"))
		}
		if _, err := io.Copy(io.Discard, r.Reader); err != nil {
			return r.fail(-1, err)
		}
		return io.EOF
	}
	if len(b.Floats) < n*b.Cols {
		b.Floats = make([]float32, n*b.Cols)
	}
	b.Words, b.Numbers, b.Weights = b.Words[:0], b.Numbers[:0], b.Weights[:0]
	b.Targets, b.LabelLists = b.Targets[:0], b.LabelLists[:0]
	r.rows.Reset()
	for i, c := range r.cells {
		switch c.role {
		case feature:
			err = r.readFeatures(i, c)
		case category:
			err = r.readCategories(i, c)
		case indicator:
			err = r.readIndicators(i)
		case label:
			err = r.readLabels(i)
		case counted:
			err = r.readTexts(i)
		case entries:
			err = r.readSparse(i)
		case target:
			err = r.readTargets(i, c)
		case weight:
			err = r.readWeights(i)
		}
		if err != nil {
			return r.fail(i, err)
		}
	}
	return nil
}

// readFeatures reads a column of numbers or lists.
func (r *tableReader) readFeatures(column int, c cell) error {
	length := 1
	if c.list {
		length = c.length
		if ok, err := r.copyLists(column, c); ok || err != nil {
			return err
		}
	}
	return r.table.numbers(column, func(i int, v float64) error {
		row := i / length
		if err := r.checkNumber(v); err != nil {
			return r.failAt(row, err)
		}
		r.block.Floats[row*r.features+c.at+i%length] = float32(v)
		return nil
	})
}

// checkNumber returns an error for a number that no feature may have.
func (l *layout) checkNumber(v float64) error {
	switch f := float32(v); {
	case v != v:
		return l.checkMissing("a missing value")
	case f-f != 0: // f-f is 0 for finite f only
		return fmt.Errorf("%v is not a finite float32", v)
	}
	return nil
}

// copyLists copies a column of lists of float32, or returns false if the table does not have them as they are.
func (r *tableReader) copyLists(column int, c cell) (ok bool, err error) {
	t, ok := r.table.(singleLists)
	if !ok {
		return false, nil
	}
	return t.singles(column, func(row int, values []float32) error {
		for _, v := range values {
			if v-v == 0 { // for finite v only
				continue
			}
			if err := r.checkNumber(float64(v)); err != nil {
				return r.failAt(row, err)
			}
		}
		copy(r.block.Floats[row*r.features+c.at:], values)
		return nil
	})
}

// readCategories reads a column of words. A null is a missing value.
func (r *tableReader) readCategories(column int, c cell) error {
	return r.texts(column, func(row int, word string, null bool) error {
		if err := r.category(c, r.block.Floats[row*r.features:(row+1)*r.features], word); err != nil {
			return r.failAt(row, err)
		}
		return nil
	})
}

// texts calls put for each value of a column of text or whole numbers in the current rows. A null is an empty text too. word is valid
// during the call.
func (r *tableReader) texts(column int, put func(row int, word string, null bool) error) error {
	if r.fields[column].kind == text {
		return r.table.texts(column, put)
	}
	return r.table.wholes(column, func(row int, v int64, null bool) error {
		if null {
			return put(row, "", true)
		}
		return put(row, strconv.FormatInt(v, 10), false)
	})
}

// readTargets reads a column of numbers to predict.
func (r *tableReader) readTargets(column int, c cell) error {
	k := len(r.options.Targets)
	if n := r.block.Rows * k; len(r.block.Targets) < n {
		r.block.Targets = slices.Grow(r.block.Targets, n)[:n]
	}
	return r.table.numbers(column, func(row int, v float64) error {
		if err := checkTarget(v); err != nil {
			return r.failAt(row, err)
		}
		r.block.Targets[row*k+c.at] = v
		return nil
	})
}

func (r *tableReader) readWeights(column int) error {
	return r.table.numbers(column, func(row int, v float64) error {
		if w := float32(v); w-w != 0 || w < 0 {
			return r.failAt(row, fmt.Errorf("weight %v: expected a finite number ≥ 0", v))
		}
		r.block.Weights = append(r.block.Weights, float32(v))
		return nil
	})
}

// readIndicators reads a column that has 1 in the rows with a label.
func (r *tableReader) readIndicators(column int) error {
	for len(r.block.LabelLists) < r.block.Rows {
		r.block.LabelLists = append(r.block.LabelLists, []string{})
	}
	return r.table.wholes(column, func(row int, v int64, null bool) error {
		field := strconv.FormatInt(v, 10)
		if null {
			field = ""
		}
		has, err := indicate(field)
		if err != nil {
			return r.failAt(row, err)
		}
		if has {
			r.block.LabelLists[row] = append(r.block.LabelLists[row], r.indicated[column])
		}
		return nil
	})
}

// readLists reads the labels of rows that may have several: lists, or texts with separators.
func (r *tableReader) readLists(column int) error {
	if k := r.fields[column].kind; k == text || k == whole {
		return r.texts(column, func(row int, field string, null bool) error {
			labels, err := r.split(strings.TrimSpace(field))
			if err != nil {
				return r.failAt(row, err)
			}
			r.block.LabelLists = append(r.block.LabelLists, labels)
			return nil
		})
	}
	t, ok := r.table.(wordLists)
	if !ok {
		return errors.New("lists of labels are read from arrow and jsonl: write one of these, or a text with separators, or a column of 0 and 1 for each label")
	}
	return t.lists(column, func(row int, items []string, null bool) error {
		labels := make([]string, 0, len(items))
		for i, item := range items {
			word, err := r.word(item)
			if err != nil {
				return r.failAt(row, fmt.Errorf("label %d of the list: %w", i, err))
			}
			labels = append(labels, word)
		}
		if null {
			labels = nil
		}
		r.block.LabelLists = append(r.block.LabelLists, labels)
		return nil
	})
}

func (r *tableReader) readLabels(column int) error {
	if r.options.several() {
		return r.readLists(column)
	}
	noLabel := errors.New("no label")
	if r.fields[column].kind == text {
		return r.table.texts(column, func(row int, text string, null bool) error {
			if null {
				return r.failAt(row, noLabel)
			}
			word, err := r.word(text)
			if err != nil {
				return r.failAt(row, err)
			}
			r.block.Words = append(r.block.Words, word)
			return nil
		})
	}
	return r.table.wholes(column, func(row int, v int64, null bool) error {
		if null {
			return r.failAt(row, noLabel)
		}
		if len(r.options.Classes) > 0 {
			if _, err := r.word(strconv.FormatInt(v, 10)); err != nil {
				return r.failAt(row, err)
			}
		}
		r.block.Numbers = append(r.block.Numbers, v)
		return nil
	})
}

// eachLabel calls put for the labels of the next rows, until it returns false.
func (r *tableReader) eachLabel(put func(label string) bool) (err error) {
	defer damaged(r.name, &err)
	for wanted := true; wanted; {
		n, err := r.table.begin(columnRows)
		if err != nil || n == 0 {
			return err
		}
		err = r.texts(r.label, func(_ int, word string, null bool) error {
			wanted = wanted && !null && put(word)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// failAt returns an error at a row of the block.
func (r *tableReader) failAt(row int, err error) error {
	if t, ok := r.table.(linedTable); ok {
		return &FileError{File: r.name, Line: t.lineOf(row), Offset: -1, Err: err}
	}
	return fmt.Errorf("row %d, counted from 0: %w", r.read+int64(row), err)
}

// columnRows is how many rows are read at a time where only some of the columns are read.
const columnRows = 1024

// addWords adds the words of the categorical columns and of the texts.
func (r *tableReader) addWords(found *foundWords) (err error) {
	defer damaged(r.name, &err)
	for {
		n, err := r.table.begin(columnRows)
		if err != nil {
			return r.fail(-1, err)
		}
		if n == 0 {
			return nil
		}
		for at, cell := range r.cells {
			if cell.role != category && cell.role != counted {
				continue
			}
			err := r.texts(at, func(row int, text string, _ bool) error {
				if err := found.add(&r.layout, at, text); err != nil {
					return r.failAt(row, err)
				}
				return nil
			})
			if err != nil {
				return r.fail(at, err)
			}
		}
	}
}
