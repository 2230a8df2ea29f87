package tabular

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Next returns the next rows of the block that fit into a message, and reads a block after the last one.
func (r *tableReader) Next() (rows *examples.Rows, err error) {
	defer damaged(r.Name, &err)
	if r.emitted == r.block.Rows {
		if err := r.readBlock(); err != nil {
			return nil, err
		}
	}
	b := &r.block
	from, to, size := r.emitted, r.emitted, len(r.TableText)
	for ; to < b.Rows; to++ {
		row, err := r.exampleBytes(to, r.labelOf(to))
		if err != nil {
			return nil, r.fail(r.Label, r.failAt(to, err))
		}
		if size += row; size > layout.MaxBatchBytes {
			break
		}
	}
	r.emitted = to
	r.batch = examples.Rows{Rows: to - from, Cols: b.Cols, Columns: r.Layout.Table, Floats: b.Floats[from*b.Cols : to*b.Cols]}
	if r.IsSparse() {
		r.cutSparse(from, to)
	}
	if len(b.Words) > 0 {
		r.batch.Words = b.Words[from:to]
	}
	if len(b.NoLabel) > 0 {
		r.batch.NoLabel = b.NoLabel[from:to]
	}
	if len(b.LabelLists) > 0 {
		r.batch.LabelLists = b.LabelLists[from:to]
	}
	if len(b.Numbers) > 0 {
		r.batch.Numbers = b.Numbers[from:to]
	}
	if k := len(r.Options.Targets); len(b.Targets) > 0 {
		r.batch.Targets = b.Targets[from*k : to*k]
	}
	if len(b.Weights) > 0 {
		r.batch.Weights = b.Weights[from:to]
	}
	return &r.batch, nil
}

// labelOf returns the text of the labels of a row of the block.
func (r *tableReader) labelOf(row int) string {
	switch b := &r.block; {
	case len(b.Words) > 0:
		return b.Words[row]
	case len(b.LabelLists) > 0:
		return strings.Join(b.LabelLists[row], ",")
	}
	return ""
}

// readBlock reads the next rows, at most as many as fit into a message without their label texts. After the last row it
// reads the file to its end, for its digest, and returns io.EOF.
func (r *tableReader) readBlock() error {
	b := &r.block
	b.Cols = r.Features
	r.read += int64(b.Rows)
	fit := (layout.MaxBatchBytes - len(r.TableText)) / (layout.FloatRowBytes(r.Features) + r.TargetBytes())
	n, err := r.table.Begin(min(r.Options.BatchRows, fit))
	if err != nil {
		return r.fail(-1, err)
	}
	b.Rows, r.emitted = n, 0
	if n == 0 {
		if r.read == 0 {
			return r.fail(-1, input.EmptyError("no rows"))
		}
		if _, err := io.Copy(io.Discard, r.Reader); err != nil {
			return r.fail(-1, err)
		}
		return io.EOF
	}
	return r.readRows()
}

// readRows reads the current rows of the table.
func (r *tableReader) readRows() (err error) {
	b := &r.block
	b.Cols = r.Features
	if len(b.Floats) < b.Rows*b.Cols {
		b.Floats = make([]float32, b.Rows*b.Cols)
	}
	b.Words, b.Numbers, b.Weights = b.Words[:0], b.Numbers[:0], b.Weights[:0]
	b.Served = b.Served[:0]
	b.Targets, b.LabelLists, b.NoLabel = b.Targets[:0], b.LabelLists[:0], b.NoLabel[:0]
	r.Rows.Reset()
	r.beginMixed()
	for i, c := range r.Cells {
		switch c.Role {
		case layout.Feature:
			err = r.readFeatures(i, c)
		case layout.Category:
			err = r.readCategories(i, c)
		case layout.Hashed:
			err = r.readHashed(i, c)
		case layout.Time:
			err = r.readTimes(i, c)
		case layout.Indicator:
			err = r.readIndicators(i)
		case layout.Label:
			err = r.readLabels(i)
		case layout.Counted:
			err = r.readTexts(i)
		case layout.Entries:
			err = r.readSparse(i)
		case layout.Target:
			err = r.readTargets(i, c)
		case layout.Weight:
			err = r.readWeights(i)
		case layout.ServedLabel, layout.ServedVersion:
			err = r.readServed(i, c.Role)
		}
		if err != nil {
			return r.fail(i, err)
		}
	}
	r.endMixed()
	return nil
}

// readFeatures reads a column of numbers or lists.
func (r *tableReader) readFeatures(column int, c layout.Cell) error {
	if t, ok := r.table.(noFile); ok && !c.List {
		return r.readCells(t.Rows, column, c)
	}
	length := 1
	if c.List {
		length = c.Length
		if c.Offsets != nil {
			return r.readOffsetLists(column, c)
		}
		if ok, err := r.copyLists(column, c); ok || err != nil {
			return err
		}
	}
	return r.numbers(column, func(i int, v float64) error {
		row := i / length
		if err := r.CheckNumber(v); err != nil {
			return r.failAt(row, err)
		}
		r.block.Floats[row*r.Features+c.At+i%length] = float32(v - c.Offset)
		return nil
	})
}

// numbers calls put for each value of a column of numbers or lists in the current rows; NaN for a missing one.
func (r *tableReader) numbers(column int, put func(i int, v float64) error) error {
	missing := r.Missing()
	if !missing.HasNumbers() || r.fields[column].Kind == Boolean {
		return r.table.Numbers(column, put)
	}
	return r.table.Numbers(column, func(i int, v float64) error { return put(i, missing.OrNaN(v)) })
}

// readCells is readFeatures for a number column of messages: a message has few rows, and closures for each column would
// double the time.
func (r *tableReader) readCells(rows *Rows, column int, c layout.Cell) error {
	for row := range rows.Current {
		v, err := rows.numberOf(rows.cell(row, column))
		if err == nil {
			err = r.CheckNumber(v)
		}
		if err != nil {
			return r.failAt(row, err)
		}
		r.block.Floats[row*r.Features+c.At] = float32(v - c.Offset)
	}
	return nil
}

// readOffsetLists is readFeatures for a list with offsets.
func (r *tableReader) readOffsetLists(column int, c layout.Cell) error {
	return r.numbers(column, func(i int, v float64) error {
		row := i / c.Length
		if err := r.CheckNumber(v); err != nil {
			return r.failAt(row, err)
		}
		r.block.Floats[row*r.Features+c.At+i%c.Length] = float32(v - c.Offsets[i%c.Length])
		return nil
	})
}

// copyLists copies a column of lists of float32, or returns false if the table does not store it in this form.
func (r *tableReader) copyLists(column int, c layout.Cell) (ok bool, err error) {
	t, ok := r.table.(singleLists)
	if !ok || r.Missing().HasNumbers() {
		return false, nil
	}
	return t.Singles(column, func(row int, values []float32) error {
		for _, v := range values {
			if v-v == 0 { // for finite v only
				continue
			}
			if err := r.CheckNumber(float64(v)); err != nil {
				return r.failAt(row, err)
			}
		}
		copy(r.block.Floats[row*r.Features+c.At:], values)
		return nil
	})
}

// readCategories reads a categorical column. A null is a missing value.
func (r *tableReader) readCategories(column int, c layout.Cell) error {
	return r.table.Texts(column, func(row int, word string, null bool) error {
		if err := r.Category(c, r.block.Floats[row*r.Features:(row+1)*r.Features], word); err != nil {
			return r.failAt(row, err)
		}
		return nil
	})
}

// readTimes reads a time column. A null is a missing value.
func (r *tableReader) readTimes(column int, c layout.Cell) error {
	return r.table.Texts(column, func(row int, text string, _ bool) error {
		if err := r.PutTime(c, r.block.Floats[row*r.Features:(row+1)*r.Features], text); err != nil {
			return r.failAt(row, err)
		}
		return nil
	})
}

// readTargets reads a target column.
func (r *tableReader) readTargets(column int, c layout.Cell) error {
	k := len(r.Options.Targets)
	if n := r.block.Rows * k; len(r.block.Targets) < n {
		r.block.Targets = slices.Grow(r.block.Targets, n)[:n]
	}
	return r.numbers(column, func(row int, v float64) error {
		if err := layout.CheckTarget(v); err != nil {
			return r.failAt(row, err)
		}
		r.block.Targets[row*k+c.At] = v
		return nil
	})
}

func (r *tableReader) readWeights(column int) error {
	return r.table.Numbers(column, func(row int, v float64) error {
		if w := float32(v); w-w != 0 || w < 0 {
			return r.failAt(row, fmt.Errorf("weight %v: expected a finite number ≥ 0", v))
		}
		r.block.Weights = append(r.block.Weights, float32(v))
		return nil
	})
}

// readServed reads the served labels of rows, or the versions that predicted them. A row without either was not served.
func (r *tableReader) readServed(column int, role layout.Role) error {
	if r.block.Served = r.block.Served[:min(len(r.block.Served), r.block.Rows)]; len(r.block.Served) < r.block.Rows {
		r.block.Served = append(r.block.Served, make([]examples.Served, r.block.Rows-len(r.block.Served))...)
	}
	return r.table.Texts(column, func(row int, text string, null bool) error {
		switch text = strings.TrimSpace(text); {
		case null || text == "":
		case role == layout.ServedLabel:
			if len(text) > examples.MaxLabel {
				return r.failAt(row, fmt.Errorf("a served label of %d bytes: expected at most %d", len(text), examples.MaxLabel))
			}
			r.block.Served[row].Label = text
		default:
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > examples.MaxVersion {
				return r.failAt(row, fmt.Errorf("version %s: expected a whole number, from 1", value.Quote(text)))
			}
			r.block.Served[row].Version = n
		}
		return nil
	})
}

// readIndicators reads a column that is 1 in the rows with a label.
func (r *tableReader) readIndicators(column int) error {
	for len(r.block.LabelLists) < r.block.Rows {
		r.block.LabelLists = append(r.block.LabelLists, []string{})
	}
	return r.table.Texts(column, func(row int, field string, _ bool) error {
		has, err := layout.Indicate(field)
		if err != nil {
			return r.failAt(row, err)
		}
		if has {
			r.block.LabelLists[row] = append(r.block.LabelLists[row], r.Indicated[column])
		}
		return nil
	})
}

// readLists reads the labels of multi-label rows: lists, or texts with separators.
func (r *tableReader) readLists(column int) error {
	k := r.fields[column].Kind
	if k == Either {
		return r.readEither(column)
	}
	if k == Text || IsNumber(k) {
		return r.table.Texts(column, func(row int, field string, null bool) error {
			labels, err := r.Split(strings.TrimSpace(field))
			if err != nil {
				return r.failAt(row, err)
			}
			r.block.LabelLists = append(r.block.LabelLists, labels)
			return nil
		})
	}
	t, ok := r.table.(wordLists)
	if !ok {
		return errNoLists
	}
	return t.Lists(column, func(row int, items []string, null bool) error {
		if items == nil && !null {
			items = []string{}
		}
		labels, err := r.ListOf(items)
		if err != nil {
			return r.failAt(row, err)
		}
		r.block.LabelLists = append(r.block.LabelLists, labels)
		return nil
	})
}

// readEither is readLists for a column with lists in some messages and texts in others. Null means unknown labels.
func (r *tableReader) readEither(column int) error {
	rows := r.table.(noFile).Rows
	for row := range rows.Current {
		var labels []string
		cell := rows.cell(row, column)
		text, err := "", error(nil)
		switch {
		case cell.Null():
		case cell.IsList():
			if labels, err = cell.Texts(); err == nil {
				labels, err = r.ListOf(append([]string{}, labels...))
			}
		default:
			if text, err = cell.Text(); err == nil {
				labels, err = r.Split(strings.TrimSpace(text))
			}
		}
		if err != nil {
			return r.failAt(row, err)
		}
		r.block.LabelLists = append(r.block.LabelLists, labels)
	}
	return nil
}

func (r *tableReader) readLabels(column int) error {
	if r.Options.Several() {
		return r.readLists(column)
	}
	if r.fields[column].Kind != Whole {
		return r.table.Texts(column, func(row int, text string, _ bool) error {
			word, err := r.Word(text)
			if err != nil {
				return r.failAt(row, err)
			}
			layout.AppendLabel(&r.block, word)
			return nil
		})
	}
	checked := len(r.Options.Classes) > 0 || len(r.Options.MissingValues) > 0
	return r.table.Wholes(column, func(row int, v int64, null bool) error {
		if checked && !null {
			word, err := r.Word(strconv.FormatInt(v, 10))
			if err != nil {
				return r.failAt(row, err)
			}
			null = word == ""
		}
		r.block.Numbers = append(r.block.Numbers, v)
		layout.NoteLabel(&r.block, len(r.block.Numbers), null)
		return nil
	})
}

var errNoLists = errors.New("only arrow and jsonl support lists of labels: write one of these, or a text with separators, " +
	"or a column of 0 and 1 for each label")

// eachLabel calls put for the labels of the next rows, until it returns false.
func (r *tableReader) eachLabel(put func(label string) bool) (err error) {
	defer damaged(r.Name, &err)
	for wanted := true; wanted; {
		n, err := r.table.Begin(columnRows)
		if err != nil || n == 0 {
			return err
		}
		err = r.table.Texts(r.Label, func(_ int, word string, null bool) error {
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
	if r.Content == nil {
		if _, placed := errors.AsType[*rowError](err); placed {
			return err
		}
		return &rowError{row, err}
	}
	if t, ok := r.table.(linedTable); ok {
		return &input.Error{File: r.Name, Line: t.LineOf(row), Offset: -1, Err: err}
	}
	return fmt.Errorf("row %d, counted from 0: %w", r.read+int64(row), err)
}

// columnRows is the number of rows read at a time if only some columns are read.
const columnRows = 1024

// addWords adds the words of the categorical columns and of the texts.
func (r *tableReader) addWords(found *layout.FoundWords) (err error) {
	defer damaged(r.Name, &err)
	for rows := 0; !found.Enough(rows); {
		n, err := r.table.Begin(columnRows)
		if err != nil {
			return r.fail(-1, err)
		}
		if n == 0 {
			return nil
		}
		if err := r.findWords(found); err != nil {
			return err
		}
		rows += n
	}
	return nil
}

// findWords adds the words of the current rows.
func (r *tableReader) findWords(found *layout.FoundWords) error {
	for at, cell := range r.Cells {
		if cell.Role != layout.Category && cell.Role != layout.Counted && cell.Role != layout.Time {
			continue
		}
		err := r.table.Texts(at, func(row int, text string, _ bool) error {
			if err := found.Add(&r.Layout, at, text); err != nil {
				return r.failAt(row, err)
			}
			return nil
		})
		if err != nil {
			return r.fail(at, err)
		}
	}
	return nil
}

// addSpread is csvSpread for a table.
func (r *tableReader) addSpread(found layout.Spreads) (err error) {
	defer damaged(r.Name, &err)
	for range layout.OffsetRows / columnRows {
		n, err := r.table.Begin(columnRows)
		if err != nil || n == 0 {
			return nil
		}
		for at, cell := range r.Cells {
			if cell.Role == layout.Time {
				addTime := func(_ int, text string, _ bool) error {
					found.AddTime(&r.Layout, at, text)
					return nil
				}
				if err := r.table.Texts(at, addTime); err != nil {
					return nil
				}
			}
			if cell.Role != layout.Feature || cell.List {
				continue
			}
			add := func(_ int, v float64) error {
				found.Add(r.NameOf(at), v)
				return nil
			}
			if err := r.numbers(at, add); err != nil {
				return nil
			}
		}
	}
	return nil
}
