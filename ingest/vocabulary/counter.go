package vocabulary

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Options configure how a text column becomes word counts: sparse rows. They are part of each version trained on texts.
type Options struct {
	// Vocabulary is the name of a vocabulary: see vocabularies.
	Vocabulary string `yaml:"vocabulary" json:"-"`
	// Columns is the number of columns, or its maximum.
	Columns int `yaml:"columns"`
	// Phrases is the maximum length of phrases that are counted in addition to single words.
	Phrases int `yaml:"phrases"`

	counted []string         // words and phrases of a counted vocabulary; nil: not found yet
	places  map[string]int32 // column of each of them
}

// MaxPhrases is the maximum of Options.Phrases: a text has as many phrases of each length as it has words.
const MaxPhrases = 5

// Defaults returns the Options of an empty configuration.
func Defaults() Options {
	return Options{Vocabulary: vocabularies()[0].Name, Columns: 1 << 18, Phrases: 1}
}

// MaxColumns returns the maximum of Columns, that of all vocabularies if the vocabulary is unknown.
func (t Options) MaxColumns() int {
	v, known := t.vocabulary()
	if !known {
		return examples.MaxColumns
	}
	return v.most
}

// Found reports whether the vocabulary has the phrases of the training files, which are read for it first.
func (t Options) Found() bool {
	v, _ := t.vocabulary()
	return v.found
}

// Counter counts the words of texts. It is not safe for concurrent use. Create it with NewCounter.
type Counter struct {
	phrases
	column func(phrase []byte) (column int32, known bool) // of the vocabulary
	counts map[int32]float32                              // of the last text, by column
	places []int32                                        // columns of the last text, ascending
}

// NewCounter returns a counter for texts with these options.
func NewCounter(how Options) *Counter {
	v, _ := how.vocabulary()
	return &Counter{phrases: phrases{most: how.Phrases}, column: v.open(how)}
}

// Count counts the words of a text and their phrases. It ignores those without a column.
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

// AppendTo appends the counts of the last text as a row.
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

// Size returns the number of columns of the last text.
func (c *Counter) Size() int { return len(c.places) }

// phrases finds the words of texts, and their phrases.
type phrases struct {
	most   int    // maximum number of words of a phrase
	text   []byte // words read, each followed by a space
	starts []int  // starts in text of the last words, with which the next phrases start
}

// each calls put with each word of a text, and with each phrase that ends with it: its words separated by spaces. A word
// is a run of letters, marks and digits, in lower case. The argument of put is valid during the call. The error is that of
// put, or means that the text is not UTF-8.
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
