package vocabulary

import (
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Options configure how a text column becomes word counts: sparse rows. They are part of each version trained on texts.
type Options struct {
	// Vocabulary is Hashed, or "", or Counted.
	Vocabulary string `yaml:"vocabulary" json:"-"`
	// Columns is the number of columns, or its maximum.
	Columns int `yaml:"columns"`
	// Phrases is the maximum length of phrases that are counted in addition to single words.
	Phrases int `yaml:"phrases"`

	counted []string         // words and phrases of a counted vocabulary; nil: not found yet
	places  map[string]int32 // column of each of them
}

// Names of vocabularies, which assign columns to the words of texts and their phrases.
const (
	// Hashed assigns a column by hash: FNV-1a of 64 bits (RFC 9923), modulo the number of columns. So no file has to be read first, and no
	// list of words is kept (Weinberger et al. 2009).
	Hashed = "hashed"
	// Counted assigns a column to each phrase in the training files, in alphabetical order; if there are too many, to those in the most
	// texts.
	Counted = "counted"
)

// MaxPhrases is the maximum of Options.Phrases: a text has as many phrases of each length as it has words.
const MaxPhrases = 5

// Defaults returns the Options of an empty configuration.
func Defaults() Options { return Options{Vocabulary: Hashed, Columns: 1 << 18, Phrases: 1} }

// MaxColumns returns the maximum of Columns.
func (t Options) MaxColumns() int {
	if t.Found() {
		return MaxVocabulary
	}
	return examples.MaxColumns
}

// Found reports whether the vocabulary has the phrases of the training files, which are read for it first.
func (t Options) Found() bool { return t.Vocabulary == Counted }

// row has the columns of a sparse row that counts what occurs.
type row struct {
	counts map[int32]float32 // by column
	places []int32           // columns, ascending
}

// count begins a row, and counts the columns for which put is called.
func (r *row) count(each func(put func(column int32)) error) error {
	if r.counts == nil {
		r.counts = map[int32]float32{}
	}
	clear(r.counts)
	r.places = r.places[:0]
	err := each(func(column int32) {
		if r.counts[column]++; r.counts[column] == 1 {
			r.places = append(r.places, column)
		}
	})
	slices.Sort(r.places)
	return err
}

// AppendTo appends the columns of the last row, starting at a column, to the current row.
func (r *row) AppendTo(rows *examples.SparseRows, from int) {
	for _, column := range r.places {
		rows.Append(int32(from)+column, r.counts[column])
	}
}

// Counter counts the words of texts. It is not safe for concurrent use. Create it with NewCounter.
type Counter struct {
	phrases
	row
	column func(phrase []byte) (column int32, known bool) // of the vocabulary
}

// NewCounter returns a counter for texts with these options.
func NewCounter(how Options) *Counter {
	c := &Counter{phrases: phrases{most: how.Phrases}}
	if how.Found() {
		c.column = func(phrase []byte) (int32, bool) {
			column, known := how.places[string(phrase)]
			return column, known
		}
		return c
	}
	hash, columns := fnv.New64a(), uint64(how.Columns)
	c.column = func(phrase []byte) (int32, bool) {
		hash.Reset()
		hash.Write(phrase) // never fails
		return int32(hash.Sum64() % columns), true
	}
	return c
}

// Append counts the words of a text and their phrases, and appends the counts as a row. It ignores those without a column. It is an error
// if the text is not UTF-8.
func (c *Counter) Append(rows *examples.SparseRows, text string) error {
	err := c.count(func(put func(column int32)) error {
		return c.each(text, func(phrase []byte) error {
			if column, known := c.column(phrase); known {
				put(column)
			}
			return nil
		})
	})
	if err == nil {
		c.AppendTo(rows, 0)
		rows.End()
	}
	return err
}

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
