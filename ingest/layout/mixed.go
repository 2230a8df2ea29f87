package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

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
