package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
)

// Text says how a column of text becomes counts of words: sparse rows, whose columns a hash chooses, so that no vocabulary has to be found first
// (Weinberger et al. 2009). It is a part of each version that is trained on texts.
type Text struct {
	// Columns is how many columns the words are hashed to. Words that share a column count as one.
	Columns int `mapstructure:"columns" yaml:"columns"`
	// Phrases is the most words that follow one another and count together, beside each word by itself.
	Phrases int `mapstructure:"phrases" yaml:"phrases"`
}

// maxPhrases bounds Text.Phrases: a text has as many phrases of each length as it has words.
const maxPhrases = 5

// DefaultText is the Text of an empty configuration.
func DefaultText() Text { return Text{Columns: 1 << 18, Phrases: 1} }

// checkText finds impossible values of the keys of text.
func (o Options) checkText() (problems []schemas.Problem) {
	wrong := func(key string, value any, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	if o.Text == "" {
		return nil
	}
	if n := o.Words.Columns; n < 1 || n > schemas.MaxColumns {
		wrong("words.columns", n, fmt.Sprintf("a whole number from 1 to %d", schemas.MaxColumns))
	}
	if n := o.Words.Phrases; n < 1 || n > maxPhrases {
		wrong("words.phrases", n, fmt.Sprintf("a whole number from 1 to %d", maxPhrases))
	}
	switch {
	case o.FromTopic != "":
		wrong("text", o.Text, "no column, as examples.from_topic is set: texts are read from files")
	case o.Text == o.Label || o.Text == o.Weight:
		wrong("text", o.Text, "another column than those of the label and the weight")
	case len(o.Columns.Use)+len(o.Columns.Drop)+len(o.Categorical) > 0:
		wrong("text", o.Text, "no columns under examples.columns and examples.categorical beside it: the text alone becomes features")
	}
	if n, isNumber := o.Text.number(); isNumber && n < 0 {
		wrong("text", o.Text, "a column's number, from 0, or its name")
	}
	return problems
}

// readsText returns a *FileError if the options give a column of text, and the format has none.
func (o Options) readsText(f format, file string) error {
	if o.Text == "" || slices.Contains(f.keys, "text") {
		return nil
	}
	var names []string
	for _, other := range formats() {
		if slices.Contains(other.keys, "text") {
			names = append(names, other.name)
		}
	}
	why := "as examples.text is set"
	if o.predicts {
		why = "as the model was trained on texts"
	}
	return wholeFile(file, fmt.Errorf("format %s: expected %s, %s", f.name, enumerate(names, "or"), why))
}

// counter counts the words of texts.
type counter struct {
	Text
	counts map[int32]float32 // of the text counted last, by column
	places []int32           // its columns, ascending
	ends   []uint64          // the hashes of the phrases that end before the word that is read
}

// count counts the words of a text and the phrases that they make. A word is a run of letters, marks and digits, in lower case.
func (c *counter) count(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("a text that is not UTF-8: convert the file")
	}
	clear(c.counts)
	if c.counts == nil {
		c.counts = map[int32]float32{}
	}
	c.places, c.ends = c.places[:0], c.ends[:0]
	words := strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
	for word := range words {
		c.ends = append(c.ends, hashOffset)
		for i, hash := range c.ends {
			hash = hashOn(hash, word)
			c.add(hash)
			c.ends[i] = hashOn(hash, " ")
		}
		if len(c.ends) == c.Phrases {
			c.ends = append(c.ends[:0], c.ends[1:]...)
		}
	}
	slices.Sort(c.places)
	return nil
}

func (c *counter) add(hash uint64) {
	column := int32(hash % uint64(c.Columns))
	if c.counts[column]++; c.counts[column] == 1 {
		c.places = append(c.places, column)
	}
}

// appendTo appends the counts of the text counted last, as a row.
func (c *counter) appendTo(rows *schemas.SparseRows) {
	for _, column := range c.places {
		rows.Append(column, c.counts[column])
	}
	rows.End()
}

// WordCounts counts the words of texts, as the examples of a model were counted. [NewWordCounts] makes WordCounts. It is not safe for concurrent use.
type WordCounts struct{ words counter }

// NewWordCounts returns WordCounts that count as t says, which must have passed [Options.Check].
func NewWordCounts(t Text) *WordCounts { return &WordCounts{counter{Text: t}} }

// Append appends the counts of a text as a row. It is an error if the text is not UTF-8.
func (w *WordCounts) Append(rows *schemas.SparseRows, text string) error {
	if err := w.words.count(text); err != nil {
		return err
	}
	w.words.appendTo(rows)
	return nil
}

// FNV-1a of 64 bits (Fowler, Noll and Vo, RFC 9923). Package hash/fnv can't go on from a hash.
const (
	hashOffset = 14695981039346656037
	hashPrime  = 1099511628211
)

// hashOn returns the hash of a text that follows what has a hash.
func hashOn(hash uint64, text string) uint64 {
	for i := range len(text) {
		hash = (hash ^ uint64(text[i])) * hashPrime
	}
	return hash
}
