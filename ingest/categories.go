package ingest

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
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

// vocabulary is the different words of each categorical column, by the column's name.
type vocabulary map[string]map[string]bool

// add adds a word of a column.
func (v vocabulary) add(l *layout, column int, word string) error {
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

// findCategories returns the options with the words of each categorical column of the files, sorted. With digests it also has the
// digests of these files, so that they are not read again for them.
func (o Options) findCategories(ctx context.Context, files []string, digests bool) (Options, error) {
	found := vocabulary{}
	o.digests = map[string]schemas.Digest{}
	for _, file := range files {
		if err := o.addWords(ctx, file, found, digests); err != nil {
			return o, err
		}
	}
	o.categories = map[string][]string{}
	for name, words := range found {
		for word := range words {
			o.categories[name] = append(o.categories[name], word)
		}
		slices.Sort(o.categories[name])
	}
	return o, nil
}

// addWords adds the words of a file, and its digest.
func (o Options) addWords(ctx context.Context, file string, found vocabulary, digest bool) error {
	c, err := o.openContent(ctx, file)
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := o.formatOf(c)
	if err != nil || f.words == nil { // a format that has no such columns
		return err
	}
	if err := f.words(c, o, found); err != nil || !digest {
		return err
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	o.digests[file] = c.digest()
	return nil
}
