package ingest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxCategories is how many words a column may have. A column with more is an identifier or a text.
const maxCategories = 1000

// category puts 1 at the feature of a word, and 0 at those of the column's other words.
func (r *csvReader) category(c cell, features []float32, word string) error {
	own := features[c.at : c.at+c.words.Features()]
	clear(own)
	if r.isMissing(word) {
		v, err := r.feature(word)
		for i := range own {
			own[i] = v
		}
		return err
	}
	at, known := c.index[word]
	if !known {
		at = c.at + len(own) - 1
	}
	features[at] = 1
	return nil
}

// findCategories returns the words of each categorical column of the files, sorted, by the column's name.
func (o Options) findCategories(ctx context.Context, files []string) (map[string][]string, error) {
	found := map[string]map[string]bool{}
	for _, file := range files {
		if err := o.addCategories(ctx, file, found); err != nil {
			return nil, err
		}
	}
	categories := map[string][]string{}
	for name, words := range found {
		for word := range words {
			categories[name] = append(categories[name], word)
		}
		slices.Sort(categories[name])
	}
	return categories, nil
}

// addCategories adds the words of a file.
func (o Options) addCategories(ctx context.Context, file string, found map[string]map[string]bool) error {
	c, err := o.openContent(ctx, file)
	if err != nil {
		return err
	}
	defer c.Close()
	if f, err := o.formatOf(c); err != nil || !slices.Contains(f.keys, "categorical") {
		return err // a format that has no such columns says so itself
	}
	r, err := newCSVReader(c, o, o.hasHeader())
	if err != nil {
		return err
	}
	if err := r.assign(); err != nil {
		return err
	}
	for {
		err := r.read()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(r.record) != len(r.cells):
			return r.fail(-1, fmt.Errorf("%d columns, expected %d", len(r.record), len(r.cells)))
		}
		for at, cell := range r.cells {
			if cell.role != category {
				continue
			}
			name, word := r.nameOf(at), strings.TrimSpace(r.record[at])
			if found[name] == nil {
				found[name] = map[string]bool{}
			}
			if r.isMissing(word) || found[name][word] {
				continue
			}
			if found[name][strings.Clone(word)] = true; len(found[name]) > maxCategories {
				return r.fail(at, fmt.Errorf("more than %d different words: leave the column out with examples.columns.drop, if they are names or texts", maxCategories))
			}
		}
	}
}
