package layout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Trouble is the error of a value in a block.
type Trouble struct {
	Row, Column int
	Err         error
}

// Wanted reports which columns are read.
func (l *Layout) Wanted() []bool {
	wanted := make([]bool, len(l.Cells))
	for at, c := range l.Cells {
		wanted[at] = c.Role != ignored
	}
	return wanted
}

// Fill appends the rows of a block to others, which are of the same layout. It returns the first error of each column, in the
// order of rows; then the appended rows are incomplete.
func (l *Layout) Fill(b *tabular.Block, to *examples.Rows) (troubles []Trouble) {
	f := filling{Layout: l, b: b, to: to, before: to.Rows}
	f.begin()
	for at, c := range l.Cells {
		if row, err := f.column(at, c); err != nil {
			troubles = append(troubles, Trouble{row, at, l.advise(at, err)})
		}
	}
	slices.SortStableFunc(troubles, func(a, b Trouble) int { return cmp.Compare(a.Row, b.Row) })
	if troubles == nil && l.IsMixed() {
		f.endMixed()
	}
	to.Rows += b.Rows
	return troubles
}

// filling turns the rows of a block into examples. Its methods return the first row with an error.
type filling struct {
	*Layout
	b      *tabular.Block
	to     *examples.Rows
	before int          // number of rows before those of the block
	floats []float32    // the dense features of the block's rows
	items  []float64    // of a list, or of a column
	cell   tabular.Cell // the value of the column in the row that is read
}

// begin makes room for the features.
func (f *filling) begin() {
	to, n := f.to, f.b.Rows*f.Features
	if f.IsMixed() {
		m := f.mixed
		m.numbers = slices.Grow(m.numbers[:0], n)[:n]
		words := f.b.Rows * len(f.Options.Categorical)
		m.words = slices.Grow(m.words[:0], words)[:words]
		m.texts.Reset()
		f.floats = m.numbers
	}
	if f.IsSparse() {
		if to.Sparse == nil {
			to.Sparse = &examples.SparseRows{}
		}
		to.Columns = f.Table
		return
	}
	to.Cols, to.Columns = f.Features, f.Table
	to.Floats = slices.Grow(to.Floats, n)[:len(to.Floats)+n]
	f.floats = to.Floats[len(to.Floats)-n:]
}

// features returns the dense features of a row.
func (f *filling) features(row int) []float32 { return f.floats[row*f.Features : (row+1)*f.Features] }

// column reads a column.
func (f *filling) column(at int, c Cell) (row int, err error) {
	switch c.Role {
	case Feature:
		if c.Kind == tabular.List {
			return f.lists(at, c)
		}
		return f.numbers(at, c)
	case Category:
		return f.texts(at, func(row int, word string) error { return f.category(c, f.features(row), word) })
	case Hashed:
		k := len(f.Options.Categorical)
		return f.texts(at, func(row int, text string) (err error) {
			f.mixed.words[row*k+c.At], err = f.wordOf(text)
			return err
		})
	case Time:
		return f.each(at, func(row int) error {
			text, err := f.cell.Time()
			if err != nil {
				return err
			}
			return f.putTime(c, f.features(row), text)
		})
	case Counted:
		return f.counts(at)
	case Entries:
		return f.entries(at)
	case Label:
		switch {
		case f.Options.Several():
			return f.labelLists(at, c)
		case c.Kind == tabular.Whole:
			return f.wholes(at)
		}
		return f.texts(at, func(_ int, text string) error {
			word, err := f.Word(text)
			f.to.Words = append(f.to.Words, word)
			noteLabel(f.to, len(f.to.Words), word == "")
			return err
		})
	case Indicator:
		return f.indicators(at)
	case Target:
		return f.targets(at, c)
	case Weight:
		return f.weights(at)
	case ServedLabel, ServedVersion:
		return f.served(at, c)
	}
	return 0, nil
}

// each calls read for the cell of each row of a column, until it returns an error.
func (f *filling) each(at int, read func(row int) error) (row int, err error) {
	for row := range f.b.Rows {
		f.cell = f.b.Cell(row, at)
		if err := read(row); err != nil {
			return row, err
		}
	}
	return 0, nil
}

// texts calls put for the text of each row.
func (f *filling) texts(at int, put func(row int, text string) error) (row int, err error) {
	return f.each(at, func(row int) error {
		text, err := f.cell.Text()
		if err != nil {
			return err
		}
		return put(row, text)
	})
}

// numbers reads a column with a number in each row.
func (f *filling) numbers(at int, c Cell) (row int, err error) {
	out, stride := f.floats[min(c.At, len(f.floats)):], f.Features
	numbers, ok := f.b.AppendNumbers(f.items[:0], at)
	if f.items = numbers; ok && !f.missing.HasNumbers() { // without a call for each
		for row, v := range numbers {
			if single := float32(v); single-single != 0 { // 0 only for finite numbers
				if err := f.checkNumber(v); err != nil {
					return row, err
				}
			}
			out[row*stride] = float32(v - c.Offset)
		}
		return 0, nil
	}
	return f.each(at, func(row int) error {
		v, err := f.number()
		out[row*stride] = float32(v - c.Offset)
		return err
	})
}

// number returns the number of a feature.
func (f *filling) number() (float64, error) {
	v, err := f.cell.Number(f.missing)
	if err != nil || v == v {
		return v, cmp.Or(err, f.checkNumber(v))
	}
	missing := "a missing value"
	if text, ok := f.cell.Word(); ok {
		missing = missingText(strings.TrimSpace(text))
	}
	return v, f.CheckMissing(missing)
}

// checkNumber returns an error for an invalid feature.
func (l *Layout) checkNumber(v float64) error {
	switch single := float32(v); {
	case single-single == 0: // only finite numbers
		return nil
	case v == v:
		return fmt.Errorf("%v is not a finite float32", v)
	}
	return l.CheckMissing("a missing value")
}

// lists reads a column with a list of all features in each row.
func (f *filling) lists(at int, c Cell) (row int, err error) {
	return f.each(at, func(row int) error {
		if !f.cell.IsList() {
			return fmt.Errorf("%s: expected a list of %d numbers, as in the first row", f.cell.String(), c.Length)
		}
		if f.items, err = f.cell.AppendNumbers(f.items[:0], f.missing); err != nil {
			return err
		}
		if len(f.items) != c.Length {
			return fmt.Errorf("a list of %d: expected %d numbers, as in the first row", len(f.items), c.Length)
		}
		out := f.features(row)[c.At : c.At+c.Length]
		for i, v := range f.items {
			if single := float32(v); single-single != 0 { // 0 only for finite numbers
				if err := f.checkNumber(v); err != nil {
					return err
				}
			}
			if c.Offsets != nil {
				v -= c.Offsets[i]
			}
			out[i] = float32(v)
		}
		return nil
	})
}

// counts counts the words of a column of texts.
func (f *filling) counts(at int) (row int, err error) {
	to := f.to.Sparse
	if f.IsMixed() {
		to = &f.mixed.texts
	}
	return f.each(at, func(row int) error {
		text, err := f.cell.Words()
		if err != nil {
			return err
		}
		return f.Words.Append(to, text)
	})
}

// entries reads a column of sparse rows. Zeros are omitted.
func (f *filling) entries(at int) (row int, err error) {
	to, n := f.to.Sparse, 0
	for row := range f.b.Rows { // room for all at once, because growing takes twice the memory
		cell := f.b.Cell(row, at)
		n += cell.Len()
	}
	to.Indices, to.Values = slices.Grow(to.Indices, n), slices.Grow(to.Values, n)
	return f.each(at, func(row int) error {
		last := int64(-1)
		err := f.cell.Pairs(func(index int64, v float64) error {
			single := float32(v)
			if err := examples.CheckIndex(index, last); err != nil {
				return err
			}
			if single-single != 0 {
				return fmt.Errorf("value %v: expected a finite number of at most %.3g in size", v, math.MaxFloat32)
			}
			last = index
			f.to.Sparse.Append(int32(index), single)
			return nil
		})
		f.to.Sparse.End()
		return err
	})
}

// labelLists reads several labels of each row: lists, or texts with separators. A null means no labels in a column of texts, and unknown
// labels in other columns.
func (f *filling) labelLists(at int, c Cell) (row int, err error) {
	return f.each(at, func(row int) error {
		texts, err := f.cell.Texts()
		if !f.cell.IsList() && (!f.cell.Null() || c.Kind == tabular.Text || tabular.IsNumber(c.Kind)) {
			var text string
			text, err = f.cell.Text()
			texts = f.split(strings.TrimSpace(text))
		}
		if err != nil {
			return err
		}
		var labels []string
		if texts != nil {
			labels = make([]string, len(texts))
		}
		for i, text := range texts {
			if labels[i], err = f.listed(text); err != nil {
				return fmt.Errorf("label %d of %s: %w", i, f.cell.String(), err)
			}
		}
		f.to.LabelLists = append(f.to.LabelLists, labels)
		return nil
	})
}

// wholes reads a column of labels that are integers.
func (f *filling) wholes(at int) (row int, err error) {
	checked := len(f.Options.Classes) > 0 || len(f.Options.MissingValues) > 0
	return f.each(at, func(row int) error {
		v, null := int64(0), f.cell.Null()
		if !null {
			if v, err = f.cell.Whole(); err != nil {
				return err
			}
		}
		if checked && !null {
			word, err := f.Word(strconv.FormatInt(v, 10))
			if err != nil {
				return err
			}
			null = word == ""
		}
		f.to.Numbers = append(f.to.Numbers, v)
		noteLabel(f.to, len(f.to.Numbers), null)
		return nil
	})
}

// indicators reads a column that is 1 in the rows with a label.
func (f *filling) indicators(at int) (row int, err error) {
	for len(f.to.LabelLists) < f.before+f.b.Rows {
		f.to.LabelLists = append(f.to.LabelLists, []string{})
	}
	return f.texts(at, func(row int, text string) error {
		has, err := Indicate(strings.TrimSpace(text))
		if has {
			labels := &f.to.LabelLists[f.before+row]
			*labels = append(*labels, f.Indicated[at])
		}
		return err
	})
}

// targets reads a column of numbers to predict.
func (f *filling) targets(at int, c Cell) (row int, err error) {
	k := len(f.Options.Targets)
	if n := (f.before + f.b.Rows) * k; len(f.to.Targets) < n {
		f.to.Targets = slices.Grow(f.to.Targets, n-len(f.to.Targets))[:n]
	}
	return f.each(at, func(row int) error {
		v, err := f.cell.Number(f.missing)
		if err != nil {
			err = fmt.Errorf("%w: expected a number to predict", err)
		} else {
			err = CheckTarget(v)
		}
		if err != nil && f.Options.Mode == Predicting {
			v, err = math.NaN(), nil
		}
		f.to.Targets[(f.before+row)*k+c.At] = v
		return err
	})
}

// weights reads the column of weights.
func (f *filling) weights(at int) (row int, err error) {
	return f.each(at, func(row int) error {
		v, err := f.cell.Number(f.missing)
		if err != nil {
			return err
		}
		w := float32(v)
		switch {
		case v != v:
			return errors.New("a row without a weight: expected a number ≥ 0")
		case w-w != 0 || w < 0:
			return fmt.Errorf("weight %v: expected a finite number ≥ 0", v)
		}
		f.to.Weights = append(f.to.Weights, w)
		return nil
	})
}

// served reads the served labels of rows, or the versions that predicted them. A row without either was not served.
func (f *filling) served(at int, c Cell) (row int, err error) {
	if n := f.before + f.b.Rows; len(f.to.Served) < n {
		f.to.Served = append(f.to.Served, make([]examples.Served, n-len(f.to.Served))...)
	}
	return f.texts(at, func(row int, text string) error {
		to := &f.to.Served[f.before+row]
		switch text = strings.TrimSpace(text); {
		case text == "":
		case c.Role == ServedLabel:
			if len(text) > examples.MaxLabel {
				return fmt.Errorf("a served label of %d bytes: expected at most %d", len(text), examples.MaxLabel)
			}
			to.Label = text
		default:
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > examples.MaxVersion {
				return fmt.Errorf("version %s: expected a whole number, from 1", value.Quote(text))
			}
			to.Version = n
		}
		return nil
	})
}

// endMixed assembles mixed rows: numbers, word counts and hashed words.
func (f *filling) endMixed() {
	m, to := f.mixed, f.to.Sparse
	k := len(f.Options.Categorical)
	for row := range f.b.Rows {
		for i, v := range f.features(row) {
			to.Append(int32(i), v)
		}
		if f.Text >= 0 {
			columns, counts := m.texts.Row(row)
			for i, column := range columns {
				to.Append(int32(f.Features)+column, counts[i])
			}
		}
		if m.hasher != nil {
			m.hasher.appendRow(to, f.firstHashed(), m.words[row*k:(row+1)*k])
		}
		to.End()
	}
}

// wordOf returns the word of a text; "" if it is missing. Surrounding space is ignored.
func (l *Layout) wordOf(text string) (word string, err error) {
	if text = strings.TrimSpace(text); l.missing.Has(text) {
		return "", l.CheckMissing(missingText(text))
	}
	return value.Word(text), l.CheckText(text)
}

// category sets the feature of a word to 1, and those of the column's other words to 0.
func (l *Layout) category(c Cell, features []float32, text string) error {
	own := features[c.At : c.At+c.columns.Features()]
	clear(own)
	at, known := c.index[text] // most words are found without normalizing their spelling
	if known && !l.missing.Has(text) {
		features[at] = 1
		return nil
	}
	word, err := l.wordOf(text)
	if word == "" {
		for i := range own {
			own[i] = float32(math.NaN())
		}
		return err
	}
	if at, known = c.index[word]; !known {
		at = c.At + len(own) - 1
	}
	features[at] = 1
	return err
}

// Batch is the rows read so far for an examples message. The zero value has none.
type Batch struct {
	Examples examples.Rows
	Lacks    [][]bool // by column: which rows have no value; nil: it is not watched
	sizes    []int    // of the message after each row
}

// Len returns the number of rows.
func (b *Batch) Len() int { return b.Examples.Rows }

// Take returns the rows, which are valid until others are added, and removes them.
func (b *Batch) Take() *examples.Rows {
	taken := b.Examples
	if taken.Sparse != nil {
		taken.Sparse = new(*taken.Sparse)
	}
	b.Cut(0)
	return &taken
}

// Cut truncates the batch to a number of rows.
func (b *Batch) Cut(rows int) {
	if rows == 0 {
		b.Examples.Reset()
	} else if rows < b.Len() {
		b.Examples = *b.Examples.Slice(0, rows)
	}
	b.sizes = b.sizes[:rows]
	for at, lacks := range b.Lacks {
		b.Lacks[at] = lacks[:min(rows, len(lacks))]
	}
}

// MostRows returns the maximum number of rows of a message. Large labels or sparse values leave room for fewer.
func (l *Layout) MostRows() int { return max(1, (MaxBatchBytes-len(l.TableText))/l.leastBytes()) }

// Full reports whether no further row fits the message of a batch.
func (l *Layout) Full(b *Batch) bool {
	return b.Len() > 0 && l.sizeIn(b)+l.leastBytes() > MaxBatchBytes
}

// sizeIn returns the size of the message of a batch.
func (l *Layout) sizeIn(b *Batch) int {
	if n := len(b.sizes); n > 0 {
		return b.sizes[n-1]
	}
	return len(l.TableText)
}

// Append appends rows from the start of a block to a batch of rows of the layout, until its message is full, and returns their number.
// beside returns the size of the data of a row in the message other than its columns. If some rows are invalid, it appends none.
func (l *Layout) Append(to *Batch, b *tabular.Block, beside func(row int) int) (added int, troubles []Trouble) {
	before, size := to.Len(), l.sizeIn(to)
	if before == 0 {
		to.Lacks = make([][]bool, len(l.Cells))
	}
	troubles = l.Fill(b, &to.Examples)
	for row := 0; row < b.Rows && troubles == nil; row++ {
		bytes, err := l.sizeOf(&to.Examples, before+row)
		if err != nil {
			troubles = []Trouble{{row, max(l.Label, l.Text), err}}
		}
		if size += bytes + beside(row); size <= MaxBatchBytes {
			to.sizes = append(to.sizes, size)
		}
	}
	if troubles == nil {
		added = len(to.sizes) - before
	}
	to.Cut(before + added)
	rows := b.Part(0, added)
	for at := range l.Cells {
		if l.watched(at) {
			to.Lacks[at] = l.withoutValue(to.Lacks[at], &rows, &to.Examples, at)
		}
	}
	return added, troubles
}
