package layout

import (
	"cmp"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

const (
	// MaxVocabulary is the maximum number of phrases of a counted vocabulary, because each version includes them.
	MaxVocabulary = 1 << 20
	// maxPhrasesFound is the maximum number of different phrases of the files for a vocabulary. They take about 500 MB.
	maxPhrasesFound = 1 << 22
)

// WordOptions configure how a text column becomes word counts: sparse rows. They are part of each version trained on texts.
type WordOptions struct {
	// Vocabulary is HashedWords, or "", or CountedWords.
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
	// HashedWords assigns a column by hash: FNV-1a of 64 bits (RFC 9923), modulo the number of columns. So no file has to be read first, and
	// no list of words is kept (Weinberger et al. 2009).
	HashedWords = "hashed"
	// CountedWords assigns a column to each phrase in the training files, in alphabetical order; if there are too many, to those in the most
	// texts.
	CountedWords = "counted"
)

// MaxPhrases is the maximum of WordOptions.Phrases: a text has as many phrases of each length as it has words.
const MaxPhrases = 5

// MaxColumns returns the maximum of Columns.
func (t WordOptions) MaxColumns() int {
	if t.Found() {
		return MaxVocabulary
	}
	return examples.MaxColumns
}

// Found reports whether the vocabulary has the phrases of the training files, which are read for it first.
func (t WordOptions) Found() bool { return t.Vocabulary == CountedWords }

// Counting returns WordOptions with the words and phrases of a counted vocabulary, in column order, from a source or a
// version. Without any, it returns the WordOptions unchanged.
func (t WordOptions) Counting(phrases []string) WordOptions {
	if len(phrases) == 0 {
		return t
	}
	t.Vocabulary, t.counted, t.places = CountedWords, phrases, make(map[string]int32, len(phrases))
	for i, phrase := range phrases {
		t.places[phrase] = int32(i)
	}
	return t
}

// Counted returns the phrases set with [WordOptions.Counting]; nil without them.
func (t WordOptions) Counted() []string { return t.counted }

// Digest returns the digest of a counted vocabulary, which is part of a source's ID; "": there is none.
func (t WordOptions) Digest() wire.Digest {
	if t.counted == nil {
		return ""
	}
	return wire.DigestJSON(t.counted)
}

// occurrences counts what occurs in a sparse row.
type occurrences struct {
	counts map[int32]float32 // by column
	order  []int32           // of the last row
}

// appendTo appends the counts to the current row, whose columns start at from, and resets them.
func (o *occurrences) appendTo(rows *examples.SparseRows, from int) {
	o.order = slices.AppendSeq(o.order[:0], maps.Keys(o.counts))
	slices.Sort(o.order)
	for _, column := range o.order {
		rows.Append(int32(from)+column, o.counts[column])
	}
	clear(o.counts)
}

// Counter counts the words of texts. It is not safe for concurrent use. Create it with NewCounter.
type Counter struct {
	phrases
	occurrences
	column func(phrase []byte) (column int32, known bool) // of the vocabulary
}

// NewCounter returns a counter for texts with these options.
func NewCounter(how WordOptions) *Counter {
	c := &Counter{phrases: phrases{most: how.Phrases}, occurrences: occurrences{counts: map[int32]float32{}}}
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
	if !utf8.ValidString(text) {
		return errNotUTF8
	}
	for phrase := range c.in(text) {
		if column, known := c.column(phrase); known {
			c.counts[column]++
		}
	}
	c.appendTo(rows, 0)
	rows.End()
	return nil
}

var errNotUTF8 = errors.New("a text that is not UTF-8: convert the file")

// phrases finds the words of texts, and their phrases.
type phrases struct {
	most   int    // maximum number of words of a phrase
	text   []byte // words read, each followed by a space
	starts []int  // starts in text of the last words, with which the next phrases start
}

// in iterates over the words of a text, and with each over the phrases that end with it: words separated by spaces. A word is a run
// of letters, marks and digits, in lower case. A phrase is valid until the next one.
func (p *phrases) in(text string) iter.Seq[[]byte] {
	return func(yield func(phrase []byte) bool) {
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
				if !yield(p.text[start:]) {
					return
				}
			}
			p.text = append(p.text, ' ')
		}
	}
}

// foundPhrases counts the texts in which each phrase occurs.
type foundPhrases struct {
	phrases
	limit int                 // maximum number of different phrases
	found map[string]*textsOf // by phrase
	texts int                 // number of texts read
}

// textsOf is the texts with a phrase.
type textsOf struct {
	texts int // their number
	last  int // the last of them
}

// add adds the phrases of a text.
func (p *foundPhrases) add(text string) error {
	if !utf8.ValidString(text) {
		return errNotUTF8
	}
	if p.found == nil {
		p.found = map[string]*textsOf{}
	}
	p.texts++
	for phrase := range p.in(text) {
		of := p.found[string(phrase)]
		if of == nil {
			if len(p.found) == p.limit {
				return fmt.Errorf("more than %d different words and phrases: set examples.words.vocabulary to hashed, or "+
					"lower examples.words.phrases", p.limit)
			}
			of = &textsOf{}
			p.found[string(phrase)] = of
		}
		if of.last != p.texts {
			of.last = p.texts
			of.texts++
		}
	}
	return nil
}

// vocabulary returns the phrases in the most texts, in alphabetical order. Ties are broken alphabetically. It is an error
// if there are none.
func (p *foundPhrases) vocabulary(most int) ([]string, error) {
	if len(p.found) == 0 {
		return nil, errors.New("no text has a word")
	}
	all := slices.SortedFunc(maps.Keys(p.found), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.found[b].texts, p.found[a].texts), strings.Compare(a, b))
	})
	kept := slices.Clone(all[:min(len(all), most)])
	slices.Sort(kept)
	return kept, nil
}

// hasher hashes the words of several columns of a row, and of crosses of such columns, to columns of sparse rows. It is
// not safe for concurrent use. Create it with newHasher.
type hasher struct {
	columns uint64
	names   []string
	crosses [][]int // indices in names
	hash    hash.Hash64
	occurrences
}

// newHasher returns a hasher of the words of columns with these names, and of crosses of some of them, to a number of
// columns.
func newHasher(columns int, names []string, cross [][]string) *hasher {
	h := &hasher{columns: uint64(columns), names: names, hash: fnv.New64a(), occurrences: occurrences{counts: map[int32]float32{}}}
	for i := range names {
		h.crosses = append(h.crosses, []int{i})
	}
	for _, of := range cross {
		var places []int
		for _, name := range of {
			places = append(places, slices.Index(names, name))
		}
		h.crosses = append(h.crosses, places)
	}
	return h
}

// appendRow appends the hashes of a row, starting at a column, to the current row. words are those of the columns of the hasher, in order;
// "": none. A cross needs words in all of its columns.
func (h *hasher) appendRow(to *examples.SparseRows, from int, words []string) {
	for _, cross := range h.crosses {
		if slices.ContainsFunc(cross, func(i int) bool { return words[i] == "" }) {
			continue
		}
		h.hash.Reset()
		for _, i := range cross {
			for _, text := range []string{h.names[i], words[i]} { // a hash never fails
				h.hash.Write([]byte(text))
				h.hash.Write([]byte{0})
			}
		}
		h.counts[int32(h.hash.Sum64()%h.columns)]++
	}
	h.appendTo(to, from)
}
