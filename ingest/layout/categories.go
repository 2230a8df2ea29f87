package layout

import (
	"fmt"
	"math"
	"strings"

	"github.com/stagewise/stagewise/schemas/value"
)

// maxCategories is the maximum number of words of a categorical column. A column with more is an identifier or a text.
const maxCategories = 1000

// wordOf returns the word of a text; "" if it is missing. Surrounding space is ignored.
func (l *Layout) wordOf(text string) (word string, err error) {
	if text = strings.TrimSpace(text); l.isMissing(text) {
		return "", l.CheckMissing(missingText(text))
	}
	return value.Word(text), l.CheckText(text)
}

// category sets the feature of a word to 1, and those of the column's other words to 0.
func (l *Layout) category(c Cell, features []float32, text string) error {
	own := features[c.At : c.At+c.words.Features()]
	clear(own)
	at, known := c.index[text] // of most, without a look at how they are spelt
	if known && !l.isMissing(text) {
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

// categoryWords are the different words of each categorical column, by column name.
type categoryWords map[string]map[string]bool

// add adds a word of a column.
func (v categoryWords) add(l *Layout, column int, word string) error {
	if l.isMissing(word) {
		return nil
	}
	if err := l.CheckText(word); err != nil {
		return err
	}
	word = value.Word(word)
	name := l.NameOf(column)
	if v[name] == nil {
		v[name] = map[string]bool{}
	}
	if v[name][word] {
		return nil
	}
	if v[name][strings.Clone(word)] = true; len(v[name]) > maxCategories {
		return fmt.Errorf("more than %d different words: exclude a column of names or texts with examples.columns.drop",
			maxCategories)
	}
	return nil
}
