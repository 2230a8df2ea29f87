package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
)

// Text says how a column of text becomes counts of words: sparse rows. It is a part of each version that is trained on texts.
type Text struct {
	// Vocabulary is the name of a way to give words columns: see vocabularies.
	Vocabulary string `mapstructure:"vocabulary" yaml:"vocabulary" json:"-"`
	// Columns is how many columns there are, or the most that there may be.
	Columns int `mapstructure:"columns" yaml:"columns"`
	// Phrases is the most words that follow one another and count together, beside each word by itself.
	Phrases int `mapstructure:"phrases" yaml:"phrases"`
}

// maxPhrases bounds Text.Phrases: a text has as many phrases of each length as it has words.
const maxPhrases = 5

// DefaultText is the Text of an empty configuration.
func DefaultText() Text {
	return Text{Vocabulary: vocabularies()[0].name, Columns: 1 << 18, Phrases: 1}
}

// checkText finds impossible values of the keys of text.
func (o Options) checkText() (problems []schemas.Problem) {
	wrong := func(key string, value any, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	if o.Text == "" {
		return nil
	}
	v, known := o.vocabulary()
	if !known {
		wrong("words.vocabulary", strconv.Quote(o.Words.Vocabulary), wantVocabulary())
	}
	if n := o.Words.Columns; known && (n < 1 || n > v.most) {
		wrong("words.columns", n, fmt.Sprintf("a whole number from 1 to %d", v.most))
	}
	if v.found && !o.predicts && len(o.Train) == 0 {
		wrong("words.vocabulary", v.name, "files under examples.train, in which its words are found")
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
	phrases
	column func(phrase []byte) (column int32, known bool) // of a vocabulary
	counts map[int32]float32                              // of the text counted last, by column
	places []int32                                        // its columns, ascending
}

// newCounter returns a counter of the words of texts that are read with the options.
func newCounter(o Options) counter {
	v, _ := o.vocabulary()
	return counter{phrases: phrases{most: o.Words.Phrases}, column: v.open(o)}
}

// count counts the words of a text and the phrases that they make. What has no column is passed over.
func (c *counter) count(text string) error {
	if c.counts == nil {
		c.counts = map[int32]float32{}
	}
	clear(c.counts)
	c.places = c.places[:0]
	err := c.each(text, func(phrase []byte) error {
		column, known := c.column(phrase)
		if !known {
			return nil
		}
		if c.counts[column]++; c.counts[column] == 1 {
			c.places = append(c.places, column)
		}
		return nil
	})
	slices.Sort(c.places)
	return err
}

// appendTo appends the counts of the text counted last, as a row.
func (c *counter) appendTo(rows *schemas.SparseRows) {
	for _, column := range c.places {
		rows.Append(column, c.counts[column])
	}
	rows.End()
}

// phrases finds the words of texts, and the phrases that they make.
type phrases struct {
	most   int    // words of a phrase
	text   []byte // the words that were read, each with a space after it
	starts []int  // in it, of the last words, which the next phrases begin with
}

// each calls put with each word of a text, and with each phrase that ends with it: its words with a space between two of them. A word is a run of
// letters, marks and digits, in lower case. What put gets is valid during the call. An error is that of put, or the text is not UTF-8.
func (p *phrases) each(text string, put func(phrase []byte) error) error {
	if !utf8.ValidString(text) {
		return errors.New("a text that is not UTF-8: convert the file")
	}
	p.text, p.starts = p.text[:0], p.starts[:0]
	words := strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
	for word := range words {
		if len(p.starts) == p.most {
			p.starts = append(p.starts[:0], p.starts[1:]...)
		}
		p.starts = append(p.starts, len(p.text))
		p.text = append(p.text, word...)
		for _, start := range p.starts {
			if err := put(p.text[start:]); err != nil {
				return err
			}
		}
		p.text = append(p.text, ' ')
	}
	return nil
}

// WordCounts counts the words of texts, as the examples of a model were counted. [NewWordCounts] makes WordCounts. It is not safe for concurrent use.
type WordCounts struct{ words counter }

// NewWordCounts returns WordCounts that count as the options say, which [TrainedOn] returned or which have passed [Options.Check].
func NewWordCounts(o Options) *WordCounts { return &WordCounts{newCounter(o)} }

// Append appends the counts of a text as a row. It is an error if the text is not UTF-8.
func (w *WordCounts) Append(rows *schemas.SparseRows, text string) error {
	if err := w.words.count(text); err != nil {
		return err
	}
	w.words.appendTo(rows)
	return nil
}
