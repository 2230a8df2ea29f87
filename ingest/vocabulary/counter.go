package vocabulary

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Options says how a column of text becomes counts of words: sparse rows. It is a part of each version that is trained on texts.
type Options struct {
	// Vocabulary is the name of a way to give words columns: see vocabularies.
	Vocabulary string `mapstructure:"vocabulary" yaml:"vocabulary" json:"-"`
	// Columns is how many columns there are, or the most that there may be.
	Columns int `mapstructure:"columns" yaml:"columns"`
	// Phrases is the maximum length of phrases that are counted in addition to single words.
	Phrases int `mapstructure:"phrases" yaml:"phrases"`

	counted []string         // the words and phrases of a counted vocabulary; nil: not found yet
	places  map[string]int32 // the column of each of them
}

// MaxPhrases bounds Text.Phrases: a text has as many phrases of each length as it has words.
const MaxPhrases = 5

// Defaults is the Text of an empty configuration.
func Defaults() Options {
	return Options{Vocabulary: vocabularies()[0].Name, Columns: 1 << 18, Phrases: 1}
}

// Check finds impossible values of the keys under words.
func (t Options) Check() (problems []option.Problem) {
	wrong := func(key string, value any, want string) {
		problems = append(problems, option.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	v, known := t.vocabulary()
	if !known {
		wrong("words.vocabulary", strconv.Quote(t.Vocabulary), wantVocabulary())
	}
	if n := t.Columns; known && (n < 1 || n > v.most) {
		wrong("words.columns", n, fmt.Sprintf("a whole number from 1 to %d", v.most))
	}
	if n := t.Phrases; n < 1 || n > MaxPhrases {
		wrong("words.phrases", n, fmt.Sprintf("a whole number from 1 to %d", MaxPhrases))
	}
	return problems
}

// Found reports whether the vocabulary has the phrases of the files to train on, which are read for them first.
func (t Options) Found() bool {
	v, _ := t.vocabulary()
	return v.found
}

// Counter counts the words of texts. NewCounter makes it. It is not safe for concurrent use.
type Counter struct {
	phrases
	column func(phrase []byte) (column int32, known bool) // of a vocabulary
	counts map[int32]float32                              // of the text counted last, by column
	places []int32                                        // its columns, ascending
}

// NewCounter returns a counter of the words of texts that are read like this.
func NewCounter(how Options) *Counter {
	v, _ := how.vocabulary()
	return &Counter{phrases: phrases{most: how.Phrases}, column: v.open(how)}
}

// Count counts the words of a text and the phrases that they make. What has no column is passed over.
func (c *Counter) Count(text string) error {
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

// AppendTo appends the counts of the text counted last, as a row.
func (c *Counter) AppendTo(rows *examples.SparseRows) {
	for _, column := range c.places {
		rows.Append(column, c.counts[column])
	}
	rows.End()
}

// Append counts a text and appends the counts as a row. It is an error if the text is not UTF-8.
func (c *Counter) Append(rows *examples.SparseRows, text string) error {
	if err := c.Count(text); err != nil {
		return err
	}
	c.AppendTo(rows)
	return nil
}

// Size returns how many columns the words of the text counted last have.
func (c *Counter) Size() int { return len(c.places) }

// phrases finds the words of texts, and the phrases that they make.
type phrases struct {
	most   int    // words of a phrase
	text   []byte // the words that were read, each with a space after it
	starts []int  // in it, of the last words, which the next phrases begin with
}

// each calls put with each word of a text, and with each phrase that ends with it: its words with a space between two
// of them. A word is a run of letters, marks and digits, in lower case. What put gets is valid during the call. An
// error is that of put, or the text is not UTF-8.
func (p *phrases) each(text string, put func(phrase []byte) error) error {
	if !utf8.ValidString(text) {
		return errors.New("a text that is not UTF-8: convert the file")
	}
	p.text, p.starts = p.text[:0], p.starts[:0]
	words := strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
			!unicode.IsMark(r)
	})
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
