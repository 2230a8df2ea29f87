package ingest

import (
	"context"
	"io"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// foundWords are those that the files to train on have. They are found before the rows are read, as they say which features there are.
type foundWords struct {
	categories categoryWords
	texts      phraseTexts
}

// FindsWords reports whether Sources reads the files to train on for their words, before it reads rows.
func (o Options) FindsWords() bool {
	v, _ := o.vocabulary()
	return len(o.Categorical) > 0 || o.Text != "" && v.found
}

// add adds the words of a value of a column, if they are looked for.
func (w *foundWords) add(l *layout, column int, text string) error {
	switch l.cells[column].role {
	case category:
		return w.categories.add(l, column, text)
	case counted:
		return w.texts.add(text)
	}
	return nil
}

// findWords returns the options with the words of each categorical column of the files, sorted, and with the vocabulary of their texts. With digests
// it also has the digests of these files, so that they are not read again for them.
func (o Options) findWords(ctx context.Context, files []string, digests bool) (Options, error) {
	found := foundWords{categories: categoryWords{}, texts: phraseTexts{phrases: phrases{most: o.Words.Phrases}, limit: maxPhrasesFound}}
	o.digests = map[string]schemas.Digest{}
	for _, file := range files {
		if err := o.addWords(ctx, file, &found, digests); err != nil {
			return o, err
		}
	}
	o.categories = map[string][]string{}
	for name, words := range found.categories {
		for word := range words {
			o.categories[name] = append(o.categories[name], word)
		}
		slices.Sort(o.categories[name])
	}
	if o.Text == "" || len(files) == 0 {
		return o, nil
	}
	phrases, err := found.texts.vocabulary(o.Words.Columns)
	if err != nil {
		return o, wholeFile(shown(files[0]), err)
	}
	return o.WithVocabulary(phrases), nil
}

// addWords adds the words of a file, and its digest.
func (o Options) addWords(ctx context.Context, file string, found *foundWords, digest bool) error {
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
