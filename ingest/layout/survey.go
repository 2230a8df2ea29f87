package layout

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Survey collects properties of rows before they are read as examples.
type Survey interface {
	// Wants reports whether the values of a column are needed.
	Wants(c Cell) bool
	// Add adds a value of a column of a layout. After an error, the rest of the column in a block is skipped.
	Add(l *Layout, column int, cell tabular.Cell) error
	// More returns the maximum number of rows to add next, after a number of rows of a file; 0 if more rows hardly matter.
	More(rows int) int
}

// Examine adds the rows of a block to a survey. It returns the first error of each column.
func (l *Layout) Examine(b *tabular.Block, s Survey) (troubles []Trouble) {
	for at, c := range l.Cells {
		for row := 0; row < b.Rows && s.Wants(c); row++ {
			if err := s.Add(l, at, b.Cell(row, at)); err != nil {
				troubles = append(troubles, Trouble{row, at, l.advise(at, err)})
				break
			}
		}
	}
	return troubles
}

// aheadRows is the number of rows that are read at a time for a survey.
const aheadRows = 1024

// FoundWords are the words and times in the training files: the words of categorical columns, the phrases of texts, and the units of times.
type FoundWords struct {
	categories map[string]map[string]bool // by column name
	texts      *foundPhrases              // nil: not counted
	stamps     map[string]*value.Stamps
	complete   bool // all rows are needed, for words
}

// NewFoundWords returns empty FoundWords.
func NewFoundWords(o Options) *FoundWords {
	w := &FoundWords{categories: map[string]map[string]bool{}, stamps: map[string]*value.Stamps{}, complete: o.findsWords()}
	if o.Text != "" && o.Words.Found() {
		w.texts = &foundPhrases{phrases: phrases{most: o.Words.Phrases}, limit: maxPhrasesFound, found: map[string]*textsOf{}}
	}
	return w
}

// findsWords reports whether the words of all rows define features.
func (o Options) findsWords() bool {
	return len(o.Categorical) > 0 && !o.Mixed() || o.Text != "" && o.Words.Found()
}

// FindsWords reports whether rows are read ahead, for words and for the units of times.
func (o Options) FindsWords() bool { return o.findsWords() || o.Times.Auto() }

// Wants implements [Survey].
func (w *FoundWords) Wants(c Cell) bool {
	return c.Role == Category || c.Role == Counted || c.Role == Time
}

// Add implements [Survey].
func (w *FoundWords) Add(l *Layout, column int, cell tabular.Cell) error {
	name := l.NameOf(column)
	switch l.Cells[column].Role {
	case Category:
		text, err := cell.Text()
		if err == nil && !l.missing.Has(text) {
			err = w.addCategory(l, name, text)
		}
		return err
	case Counted:
		text, err := cell.Words()
		if err == nil && w.texts != nil {
			err = w.texts.add(text)
		}
		return err
	}
	text, err := cell.Time()
	if w.stamps[name] == nil {
		w.stamps[name] = &value.Stamps{}
	}
	if err == nil && !l.missing.HasNumberText(text) {
		w.stamps[name].Add(text)
	}
	return err
}

// maxCategories is the maximum number of words of a categorical column. A column with more is an identifier or a text.
const maxCategories = 1000

// addCategory adds a word of a categorical column.
func (w *FoundWords) addCategory(l *Layout, name, text string) error {
	if err := l.CheckText(text); err != nil {
		return err
	}
	words, word := w.categories[name], value.Word(text)
	if words == nil {
		words = map[string]bool{}
		w.categories[name] = words
	}
	if words[word] {
		return nil
	}
	if words[strings.Clone(word)] = true; len(words) > maxCategories {
		return fmt.Errorf("more than %d different words: exclude a column of names or texts with examples.columns.drop", maxCategories)
	}
	return nil
}

// More implements [Survey].
func (w *FoundWords) More(rows int) int {
	if w.complete || rows < OffsetRows {
		return aheadRows
	}
	for _, s := range w.stamps {
		if !s.Settled() {
			return aheadRows
		}
	}
	return 0
}

// WithWords returns the options with the words of each categorical column, sorted, and with the vocabulary of the texts,
// if any.
func (o Options) WithWords(found *FoundWords) (_ Options, err error) {
	o.Found.Categories, o.Found.Stamps = map[string][]string{}, found.stamps
	for name, words := range found.categories {
		o.Found.Categories[name] = slices.Sorted(maps.Keys(words))
	}
	if found.texts != nil {
		var phrases []string
		phrases, err = found.texts.vocabulary(o.Words.Columns)
		o.Words = o.Words.Counting(phrases)
	}
	return o, err
}

// WithUnits returns the options with the units found for columns in which no number was found before.
func (o Options) WithUnits(found *FoundWords) Options {
	stamps := maps.Clone(found.stamps)
	for name, s := range o.Found.Stamps {
		if u, err := s.Unit(); u != "" || err != nil || stamps[name] == nil {
			stamps[name] = s
		}
	}
	o.Found.Stamps = stamps
	return o
}

// OffsetRows is the number of first rows of the training files that determine which columns need an offset.
const OffsetRows = 4096

// levels is the minimum number of float32 values within the standard deviation of a column.
const levels = 1024

// Offsets are subtracted from the values of columns before the conversion to float32, by column name.
type Offsets map[string]float64

// offset returns the offset of a column: from the configuration, or else from the first rows.
func (o Options) offset(name string) float64 {
	if offset, said := o.Offsets[name]; said {
		return offset
	}
	return o.Found.Offsets[name]
}

// Spreads are the spreads of the numbers of columns without an offset in the options, and of the ages of times, by column name.
type Spreads map[string]*spread

// spread accumulates the moments of a column.
type spread struct {
	n, shift, sum, squares float64
	inexact                bool // some numbers are not exact in float32
	age                    bool // the column is ages of times, with shift the smallest
}

// Wants implements [Survey].
func (s Spreads) Wants(c Cell) bool {
	return c.Role == Feature && c.Kind != tabular.List || c.Role == Time
}

// Add implements [Survey]. It ignores invalid values, which are reported when the rows are read.
func (s Spreads) Add(l *Layout, column int, cell tabular.Cell) error {
	name := l.NameOf(column)
	if l.Cells[column].Role == Time {
		if text, err := cell.Time(); err == nil {
			s.addTime(l, column, text)
		}
	} else if _, said := l.Options.Offsets[name]; !said {
		if v, err := cell.Number(l.missing); err == nil {
			s.add(name, v)
		}
	}
	return nil
}

// add adds a number of a column; NaN is ignored.
func (s Spreads) add(name string, v float64) {
	if v-v != 0 { // 0 only for finite v
		return
	}
	at := s[name]
	if at == nil {
		at = &spread{shift: v}
		s[name] = at
	}
	d := v - at.shift
	at.n, at.sum, at.squares = at.n+1, at.sum+d, at.squares+d*d
	at.inexact = at.inexact || float64(float32(v)) != v
}

// addTime adds a time of a column. Ages are relative to the newest.
func (s Spreads) addTime(l *Layout, column int, text string) {
	_, u, anyTime, err := l.timeColumn(column)
	if err != nil {
		return
	}
	t, missing, err := l.timeOf(text, u, anyTime)
	if err != nil || missing {
		return
	}
	age := value.PartOfTime(t, value.TimeAge)
	key := examples.PartOf(l.NameOf(column), value.TimeAge, u).Name
	at := s[key]
	if at == nil {
		at = &spread{age: true, shift: age}
		s[key] = at
	}
	at.n, at.shift = at.n+1, min(at.shift, age)
}

// More implements [Survey].
func (s Spreads) More(rows int) int { return min(aheadRows, OffsetRows-rows) }

// offset returns the offset of the numbers; 0 if float32 resolves their standard deviation without one. It is a multiple
// of a power of 2 near the standard deviation, so it has few digits, and is not the number of any row.
func (s *spread) offset() float64 {
	if s.age {
		return s.shift
	}
	mean := s.sum / s.n
	deviation := math.Sqrt(max(s.squares/s.n-mean*mean, 0))
	mean += s.shift
	step := math.Abs(mean) / (1 << 24)
	switch {
	case math.IsNaN(deviation), math.IsInf(deviation, 0): // of numbers outside the range of float32, with or without an offset
		return 0
	case !s.inexact || step*levels <= deviation:
		return 0
	case deviation == 0 && step < 1: // a constant such as 0.1; different integers differ by at least 1
		return 0
	case deviation == 0:
		return mean
	}
	unit := math.Exp2(math.Ceil(math.Log2(deviation)))
	return math.Round(mean/unit) * unit
}

// Offsets returns the offsets of the columns that need one, and have at least the given number of numbers.
func (s Spreads) Offsets(least int) Offsets {
	needed := Offsets{}
	for name, of := range s {
		if offset := of.offset(); offset != 0 && of.n >= float64(least) {
			needed[name] = offset
		}
	}
	return needed
}

// Extent is the columns of sparse rows that are converted to dense ones: Width columns starting with First. The zero
// value: rows stay sparse.
type Extent struct {
	First int64
	Width int
}

// Place returns the dense position of an index; −1: beyond the last one, which is allowed in rows to predict.
func (e Extent) Place(index int64) (int, error) {
	at := index - e.First
	switch {
	case at < 0:
		return 0, fmt.Errorf("index %d: the columns that the model was trained on begin at %d", index, e.First)
	case at >= int64(e.Width):
		return -1, nil
	}
	return int(at), nil
}

// FoundExtent is the smallest and the largest index of sparse rows. Start from NewFoundExtent.
type FoundExtent struct{ first, last int64 }

// NewFoundExtent returns the extent of rows without an index.
func NewFoundExtent() *FoundExtent { return &FoundExtent{first: examples.MaxColumns, last: -1} }

// Wants implements [Survey].
func (f *FoundExtent) Wants(c Cell) bool { return c.Role == Entries }

// Add implements [Survey]. It ignores invalid rows, which are reported when they are read.
func (f *FoundExtent) Add(_ *Layout, _ int, cell tabular.Cell) error {
	_ = cell.Pairs(func(index int64, _ float64) error {
		f.first, f.last = min(f.first, index), max(f.last, index)
		return nil
	})
	return nil
}

// More implements [Survey].
func (f *FoundExtent) More(int) int { return aheadRows }

// Extent returns the columns from the first on, which is 0 if some row has it, and otherwise 1. ok is false without an
// index.
func (f *FoundExtent) Extent() (e Extent, ok bool) {
	if f.last < 0 {
		return e, false
	}
	e.First = min(f.first, 1) // LIBSVM counts from 1, other writers from 0
	e.Width = int(f.last-e.First) + 1
	return e, true
}

// After returns the columns for the conversion of sparse rows after those of a chain: the columns of the chain. Rows may
// have fewer. It is an error if there are indices beyond these.
func (f *FoundExtent) After(l *Learnt) (e Extent, err error) {
	e, ok := f.Extent()
	if !ok || l == nil || l.Sparse {
		return e, nil
	}
	first := e.First
	if e.Width = l.Width; l.First != nil {
		e.First = *l.First
	}
	if last := e.First + int64(e.Width) - 1; f.last > last || first < e.First {
		return e, fmt.Errorf("indices from %d to %d, but %s have indices from %d to %d: %s", f.first, f.last, l.rows(), e.First, last, l.advice())
	}
	return e, nil
}

// inspectRows is the number of rows that are inspected to detect a wrong label column.
const inspectRows = 10_000

// Inspection collects the labels of the first rows, to detect a wrong label column.
type Inspection struct {
	labels   map[string]bool
	rows     int
	fraction string // a label that is a number with a fraction; "": none
}

// Wants implements [Survey].
func (i *Inspection) Wants(c Cell) bool { return c.Role == Label }

// Add implements [Survey]. It ignores invalid labels, which are reported when the rows are read.
func (i *Inspection) Add(l *Layout, _ int, cell tabular.Cell) error {
	label, _ := cell.Text()
	if label = strings.TrimSpace(label); l.NoLabels.Has(label) || i.More(0) == 0 {
		return nil
	}
	if v, err := value.Number(label); err == nil && v != math.Trunc(v) {
		i.fraction = label
	}
	i.rows++
	i.labels[strings.Clone(label)] = true
	return nil
}

// More implements [Survey].
func (i *Inspection) More(int) int {
	if i.fraction != "" {
		return 0
	}
	return min(aheadRows, inspectRows-i.rows)
}

// InspectLabels returns a *input.Error if no option names the label column, and the default column looks like a measurement or a row
// number: it has fractions, or more different values than a tenth of the rows. inspect reads the first rows.
func (l *Layout) InspectLabels(inspect func(Survey) error) error {
	if l.Label < 0 || l.Options.Several() || l.Options.Label != "" || len(l.Options.Classes) > 0 {
		return nil
	}
	found := Inspection{labels: map[string]bool{}}
	err := inspect(&found)
	switch {
	case found.fraction != "":
		return l.Refuse(l.Label, fmt.Errorf("%s looks like a measurement, not a label: set examples.label to the label column",
			value.Quote(found.fraction)))
	case err != nil:
		return nil // reported when the file is read
	case len(found.labels) > 2 && len(found.labels) > found.rows/10:
		return l.Refuse(l.Label, fmt.Errorf("%d different values in %d rows do not look like labels: "+
			"set examples.label to the label column", len(found.labels), found.rows))
	}
	return nil
}
