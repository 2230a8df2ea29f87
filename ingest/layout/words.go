package layout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
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

// Hash is the keys under `prepare.hash`: how categorical columns become columns of sparse rows. The zero value means
// that they do not, unless there is also a text.
type Hash struct {
	// Columns is the number of columns to which the words of all categorical columns are hashed; 0: defaultHash, if there is
	// also a text.
	Columns HashColumns `yaml:"columns"`
	// Cross are lists of categorical columns whose words are also hashed together.
	Cross Crosses `yaml:"cross"`
}

// HashColumns is a number of columns, which may be written as a power, such as 2^22.
type HashColumns int

// UnmarshalJSON reads a number, or a power as text.
func (h *HashColumns) UnmarshalJSON(content []byte) error {
	var power string
	if json.Unmarshal(content, (*int)(h)) == nil {
		return nil
	}
	err := json.Unmarshal(content, &power)
	base, exponent, _ := strings.Cut(power, "^")
	b, noBase := strconv.ParseUint(base, 10, 32)
	e, noExponent := strconv.ParseUint(exponent, 10, 32)
	columns := math.Pow(float64(b), float64(e))
	if err != nil || noBase != nil || noExponent != nil || columns > 1<<53 {
		return errors.New("expected a whole number, or a power, as in 2^22")
	}
	*h = HashColumns(columns)
	return nil
}

// Crosses are lists of columns.
type Crosses [][]string

// defaultHash is the default number of hash columns.
const defaultHash = 1 << 18

// Check finds invalid values of the keys under `prepare`. categorical are the categorical columns.
func (h Hash) Check(categorical []string) (problems option.Problems) {
	if h.Columns < 0 || h.Columns > examples.MaxColumns {
		problems.Add("hash.columns", h.Columns, fmt.Sprintf("a whole number from 1 to %d, or 0 for none", examples.MaxColumns))
	}
	switch {
	case h.Columns != 0 && len(categorical) == 0:
		problems.Add("hash.columns", h.Columns, "columns under examples.categorical, whose words are hashed")
	case h.Columns == 0 && len(h.Cross) > 0:
		problems.Add("hash.cross", h.Cross, "prepare.hash.columns too, such as 2^22")
	}
	for _, cross := range h.Cross {
		if !distinct(cross) || slices.ContainsFunc(cross, func(c string) bool { return !slices.Contains(categorical, c) }) {
			problems.Add("hash.cross", cross, "different columns of examples.categorical")
		}
		if len(cross) < 2 {
			problems.Add("hash.cross", cross, "two or more columns")
		}
	}
	return problems
}

// HashKeys documents the keys under `prepare` of a [Hash].
func HashKeys() []option.Key {
	return []option.Key{
		{Name: "hash.columns", Meaning: fmt.Sprintf("number of columns that the words of `examples.categorical` are hashed to, such as "+
			"`2^22`, instead of a feature for each: see [events](texts.md#events). 0: none, or %d if `examples.text` is combined with "+
			"other columns", defaultHash)},
		{Name: "hash.cross", Meaning: "lists of categorical columns whose combined words are also hashed, such as `[[site, ad]]`"},
	}
}

// Hashes returns how categorical columns are hashed, with the default number of columns; zero: they are not.
func (o Options) Hashes() Hash {
	h := o.Hash
	if h.Columns == 0 && o.Mixed() && len(o.Categorical) > 0 {
		h.Columns = defaultHash
	}
	return h
}

// Mixed reports whether rows are sparse and combine numbers, texts and hashed words: numbers first, then the text columns,
// then the hash columns.
func (o Options) Mixed() bool {
	return o.Hash.Columns > 0 || o.Text != "" && len(o.Columns.Use)+len(o.Columns.Drop)+len(o.Categorical)+len(o.Times) > 0
}

// mixed is the additional state of a layout of mixed rows.
type mixed struct {
	hasher  *hasher   // nil: there are no hashed words
	words   []string  // of the rows of a block, in the order of Options.Categorical
	numbers []float32 // of these rows
	texts   examples.SparseRows
}

// beginMixed makes the rows mixed, if the options say so.
func (l *Layout) beginMixed() {
	if !l.Options.Mixed() {
		return
	}
	l.mixed = &mixed{}
	if len(l.Options.Categorical) > 0 {
		h := l.Options.Hashes()
		l.mixed.hasher = newHasher(int(h.Columns), l.Options.Categorical, h.Cross)
	}
}

// firstHashed returns the first hash column, after those of the words of a text.
func (l *Layout) firstHashed() int {
	if l.Text < 0 {
		return l.Features
	}
	return l.Features + l.Options.Words.Columns
}

// finishMixed checks the number of columns.
func (l *Layout) finishMixed() error {
	l.TableText = l.Table.Text()
	if key := l.Options.Counting; key != "" && l.Features > 0 {
		return l.Locate(-1, fmt.Errorf("%s: column %s has numbers, which are centred, and counts can't be negative: set another kind, or add "+
			"the column to examples.columns.drop or examples.categorical", key, value.Quote(l.Table[0].Name)))
	}
	if n := l.firstHashed() + int(l.Options.Hashes().Columns); n > examples.MaxColumns {
		return l.Locate(-1, fmt.Errorf("%d columns of numbers, words and hashes: expected at most %d: set examples.words.columns or "+
			"prepare.hash.columns to less", n, examples.MaxColumns))
	}
	return nil
}

// IsMixed reports whether rows are mixed: see [Options.Mixed].
func (l *Layout) IsMixed() bool { return l.mixed != nil }
