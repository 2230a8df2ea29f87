package layout

import (
	"maps"
	"slices"

	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// FoundWords are the words in the training files. They are collected before the rows are read, because they define the
// features.
type FoundWords struct {
	categories categoryWords
	texts      *vocabulary.PhraseTexts // nil: not counted
	stamps     map[string]*value.Stamps
	complete   bool // all rows are needed, for words
}

// NewFoundWords returns empty FoundWords.
func NewFoundWords(o Options) *FoundWords {
	w := &FoundWords{categories: categoryWords{}, stamps: map[string]*value.Stamps{}, complete: o.findsWords()}
	if o.Text != "" && o.Words.Found() {
		w.texts = vocabulary.NewPhraseTexts(o.Words)
	}
	return w
}

// findsWords reports whether the words of all rows define features.
func (o Options) findsWords() bool {
	return len(o.Categorical) > 0 && !o.Mixed() || o.Text != "" && o.Words.Found()
}

// FindsWords reports whether rows are read ahead, for words and for the units of times.
func (o Options) FindsWords() bool { return o.findsWords() || o.Times.Auto() }

// Add adds the words of a column's value, if they are needed.
func (w *FoundWords) Add(l *Layout, column int, text string) error {
	switch l.Cells[column].Role {
	case Category:
		return w.categories.add(l, column, text)
	case Counted:
		if w.texts != nil {
			return w.texts.Add(text)
		}
	case Time:
		name := l.NameOf(column)
		if w.stamps[name] == nil {
			w.stamps[name] = &value.Stamps{}
		}
		if !l.missing.HasNumberText(text) {
			w.stamps[name].Add(text)
		}
	}
	return nil
}

// Enough reports whether further rows can hardly change what was found, after a number of rows of a file.
func (w *FoundWords) Enough(rows int) bool {
	if w.complete || rows < OffsetRows {
		return false
	}
	for _, s := range w.stamps {
		if !s.Settled() {
			return false
		}
	}
	return true
}

// WithWords returns the options with the words of each categorical column, sorted, and with the vocabulary of the texts,
// if any.
func (o Options) WithWords(found *FoundWords) (Options, error) {
	o.categories, o.stamps = map[string][]string{}, found.stamps
	for name, words := range found.categories {
		for word := range words {
			o.categories[name] = append(o.categories[name], word)
		}
		slices.Sort(o.categories[name])
	}
	if found.texts == nil {
		return o, nil
	}
	phrases, err := found.texts.Vocabulary(o.Words.Columns)
	if err != nil {
		return o, err
	}
	o.Words = o.Words.Counting(phrases)
	return o, nil
}

// WithUnits returns the options with the units found, of the columns in which no number was found before.
func (o Options) WithUnits(found *FoundWords) Options {
	stamps := maps.Clone(found.stamps)
	for name, s := range o.stamps {
		if u, err := s.Unit(); u != "" || err != nil || stamps[name] == nil {
			stamps[name] = s
		}
	}
	o.stamps = stamps
	return o
}

// withUnits returns the options with the units of these columns.
func (o Options) withUnits(columns examples.Columns) Options {
	if o.stamps = maps.Clone(o.stamps); o.stamps == nil {
		o.stamps = map[string]*value.Stamps{}
	}
	for _, c := range columns {
		if c.Unit != "" {
			o.stamps[c.Source()] = value.StampsIn(c.Unit)
		}
	}
	return o
}

// WordsOf returns the words found in a categorical column.
func (o Options) WordsOf(column string) []string { return o.categories[column] }
