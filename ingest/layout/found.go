package layout

import (
	"slices"

	"github.com/stagewise/stagewise/ingest/vocabulary"
)

// FoundWords are the words in the training files. They are collected before the rows are read, because they define the
// features.
type FoundWords struct {
	categories categoryWords
	texts      *vocabulary.PhraseTexts
}

// NewFoundWords returns empty FoundWords.
func NewFoundWords(o Options) *FoundWords {
	return &FoundWords{categories: categoryWords{}, texts: vocabulary.NewPhraseTexts(o.Words)}
}

// Add adds the words of a column's value, if they are needed.
func (w *FoundWords) Add(l *Layout, column int, text string) error {
	switch l.Cells[column].Role {
	case Category:
		return w.categories.add(l, column, text)
	case Counted:
		return w.texts.Add(text)
	}
	return nil
}

// WithWords returns the options with the words of each categorical column, sorted, and with the vocabulary of the texts,
// if any.
func (o Options) WithWords(found *FoundWords) (Options, error) {
	o.categories = map[string][]string{}
	for name, words := range found.categories {
		for word := range words {
			o.categories[name] = append(o.categories[name], word)
		}
		slices.Sort(o.categories[name])
	}
	if o.Text == "" {
		return o, nil
	}
	phrases, err := found.texts.Vocabulary(o.Words.Columns)
	if err != nil {
		return o, err
	}
	o.Words = o.Words.Counting(phrases)
	return o, nil
}

// WordsOf returns the words found in a categorical column.
func (o Options) WordsOf(column string) []string { return o.categories[column] }
