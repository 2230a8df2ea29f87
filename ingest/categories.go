package ingest

import (
	"fmt"
	"math"
	"strings"
)

// maxCategories is how many words a column may have. A column with more is an identifier or a text.
const maxCategories = 1000

// category puts 1 at the feature of a word, and 0 at those of the column's other words. Space around a word does not count.
func (l *layout) category(c cell, features []float32, word string) error {
	own := features[c.at : c.at+c.words.Features()]
	clear(own)
	word = strings.TrimSpace(word)
	if l.isMissing(word) {
		for i := range own {
			own[i] = float32(math.NaN())
		}
		return l.checkMissing(missingText(word))
	}
	at, known := c.index[word]
	if !known {
		at = c.at + len(own) - 1
	}
	features[at] = 1
	return nil
}

// categoryWords are the different words of each categorical column, by the column's name.
type categoryWords map[string]map[string]bool

// add adds a word of a column.
func (v categoryWords) add(l *layout, column int, word string) error {
	if word = strings.TrimSpace(word); l.isMissing(word) {
		return nil
	}
	name := l.nameOf(column)
	if v[name] == nil {
		v[name] = map[string]bool{}
	}
	if v[name][word] {
		return nil
	}
	if v[name][strings.Clone(word)] = true; len(v[name]) > maxCategories {
		return fmt.Errorf("more than %d different words: leave the column out with examples.columns.drop, if they are names or texts", maxCategories)
	}
	return nil
}
