package screen

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

const (
	// maxWords is the maximum number of different words that a column records: one more than the limit of categorical columns.
	maxWords = 1001
	// maxOdd is the maximum number of different missing-value texts of a numeric column.
	maxOdd = 3
	// maxTried is the number of cells checked for dates, because trying all formats takes microseconds.
	maxTried = 1000
)

// words is the part of a [layout.Survey] of all rows of the columns whose cells may be words.
type words struct{}

// Wants implements [layout.Survey].
func (words) Wants(c layout.Cell) bool { return isWords(c.Field) }

// More implements [layout.Survey].
func (words) More(int) int { return blockRows }

// blockRows is the number of rows of a table that are read at a time.
const blockRows = 1024

// Columns describes the columns of a table, from which their roles follow. It is a [layout.Survey]. Memory does not depend on the length
// of the table: a column keeps the words for a categorical column, and a sample of the hashes of its cells.
type Columns struct {
	words
	list    []*column // in the order of the file
	missing value.Missing
}

// NewColumns returns no columns. missing are missing-value texts, in addition to the empty cell.
func NewColumns(missing []string) *Columns { return &Columns{missing: value.MissingOf(missing)} }

// Add implements [layout.Survey]. The columns are those of the first file.
func (t *Columns) Add(l *layout.Layout, column int, cell tabular.Cell) error {
	for at := len(t.list); at < len(l.Cells); at++ {
		t.list = append(t.list, newColumn(at, l.Cells[at].Field))
	}
	text, err := cell.Text()
	if err == nil {
		err = l.CheckText(text)
	}
	if err == nil {
		t.list[column].add(text, t.missing)
	}
	return err
}

// rows returns the number of rows.
func (t *Columns) rows() int {
	if len(t.list) == 0 {
		return 0
	}
	return t.list[0].rows
}

// isNumbers reports whether the cells of a column may be numeric features.
func isNumbers(f tabular.Field) bool { return tabular.IsNumber(f.Kind) || f.Digits }

// isWords reports whether the cells of a column may be words.
func isWords(f tabular.Field) bool { return isNumbers(f) || f.Kind == tabular.Text }

// column describes a column of a table.
type column struct {
	tabular.Field
	at   int    // number of the column, from 0
	key  string // in options: the number, if the name is empty, looks like a number, or is not unique
	role columnRole
	why  string // description of the column, and why it is dropped

	rows     int     // number of rows of the table
	missing  int     // number of empty cells and missing-value texts
	numbers  int     // number of numeric cells
	booleans int     // number of these that are true or false
	whole    bool    // all numbers are integers
	min, max float64 // of the numbers

	different *distinct
	words     map[string]int // number of occurrences of each word; stops at maxWords
	odd       map[string]int // non-numeric words, at most one more than maxOdd
	counts    bool           // each number is the previous one plus one
	last      float64
	tried     int  // number of non-numeric cells checked for dates
	dates     int  // number of these that are dates or times
	times     int  // number of these that [value.Time] can parse
	clock     bool // one of these is not at midnight
	spoken    int  // number of words in non-numeric cells, possibly several per cell
}

func newColumn(at int, f tabular.Field) *column {
	return &column{Field: f, at: at, whole: true, counts: true, min: math.Inf(1), max: math.Inf(-1), words: map[string]int{},
		odd: map[string]int{}, different: &distinct{seed: maphash.MakeSeed(), kept: map[uint64]int32{}}}
}

// present returns the number of cells with a value.
func (c *column) present() int { return c.rows - c.missing }

// word is a word of a column with its number of rows.
type word struct {
	text string
	rows int
}

// counted returns the different words with their frequencies, most frequent first; ok is false if there are more than 1000.
func (c *column) counted() (words []word, ok bool) {
	for text, n := range c.words {
		words = append(words, word{text, n})
	}
	slices.SortFunc(words, func(a, b word) int { return cmp.Or(cmp.Compare(b.rows, a.rows), cmp.Compare(a.text, b.text)) })
	return words, len(words) < maxWords
}

// missingWords are the non-numeric words of a numeric column, as written, sorted.
func (c *column) missingWords() []string {
	if !c.isNumeric() {
		return nil
	}
	return slices.Sorted(maps.Keys(c.odd))
}

// isNumeric reports whether the column is numeric, except for a few other words that indicate missing numbers.
func (c *column) isNumeric() bool {
	switch present := c.present(); {
	case !isNumbers(c.Field) || c.numbers == 0:
		return false
	case c.numbers == present:
		return true
	default:
		return c.Type == "" && len(c.odd) <= maxOdd && c.numbers*10 >= present*9
	}
}

// add adds a cell.
func (c *column) add(text string, missing value.Missing) {
	c.rows++
	if text = strings.TrimSpace(text); missing.HasNumberText(text) {
		c.missing++
		c.counts = false
		return
	}
	word := value.Word(text)
	c.different.add(word)
	if n, known := c.words[word]; known {
		c.words[word] = n + 1
	} else if len(c.words) < maxWords {
		c.words[strings.Clone(word)] = 1
	}
	v, err := value.Number(text)
	if err != nil || math.IsInf(v, 0) {
		c.addWord(text)
		return
	}
	if _, boolean := value.Boolean(text); boolean {
		c.booleans++
	}
	c.counts = c.counts && (c.numbers == 0 || v == c.last+1)
	c.numbers++
	c.last, c.min, c.max, c.whole = v, min(c.min, v), max(c.max, v), c.whole && v == math.Trunc(v)
}

// addWord adds a non-numeric cell.
func (c *column) addWord(text string) {
	c.counts = false
	if len(c.odd) <= maxOdd && c.odd[text] == 0 {
		c.odd[strings.Clone(text)] = 1
	}
	c.spoken += 1 + strings.Count(text, " ")
	if c.tried < maxTried {
		if c.tried++; isDate(text) {
			c.dates++
		}
		if t, err := value.Time(text, ""); err == nil {
			c.times++
			c.clock = c.clock || t.Hour()+t.Minute()+t.Second() > 0
		}
	}
}

// areDates reports whether the cells are dates or times, with few exceptions.
func (c *column) areDates() bool {
	return c.numbers*20 <= c.present() && c.tried > 0 && c.dates*20 >= c.tried*19
}

// areTimes reports whether all checked non-numeric cells are dates or times that ingest can parse, and there are few
// others.
func (c *column) areTimes() bool { return c.numbers == 0 && c.times > 0 && c.times == c.tried }

// parts returns the features of a time column: its age and weekday, and the hour if it has times of day.
func (c *column) parts() []string {
	if c.clock || strings.HasPrefix(strings.ToLower(c.Type), "timestamp") {
		return []string{value.TimeHour, value.TimeWeekday, value.TimeAge}
	}
	return []string{value.TimeWeekday, value.TimeAge}
}

// layouts are common date and time formats.
var layouts = []string{
	time.RFC3339, "2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006/01/02",
	"2006/01/02 15:04:05", "1/2/2006", "1/2/2006 15:04", "1/2/2006 15:04:05", "2/1/2006", "02.01.2006", "02.01.2006 15:04", "15:04:05",
	"15:04", "2006-01", "2006-01-02 15:04:05Z07:00", "2-Jan-2006", "2 Jan 2006", "Jan 2, 2006", time.RFC1123, time.RFC1123Z,
}

// isDate reports whether a text is a date or a time.
func isDate(text string) bool {
	if len(text) < len("15:04") || len(text) > len("2006-01-02T15:04:05.000000000-07:00") || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	return slices.ContainsFunc(layouts, func(layout string) bool {
		_, err := time.Parse(layout, text)
		return err == nil
	})
}

// sampled is the maximum number of hashes of a column.
const sampled = 1 << 14

// distinct counts different texts. It keeps all hashes, with their frequencies, up to a limit; then only those that end
// with a growing number of zeros (adaptive sampling: Wegman, in Flajolet 1990). So counts up to sampled are exact, and
// others are within some percent.
type distinct struct {
	seed   maphash.Seed
	kept   map[uint64]int32
	zeros  uint
	repeat bool // a kept text occurred twice
}

func (d *distinct) add(text string) {
	hash := maphash.String(d.seed, text)
	if hash&(1<<d.zeros-1) != 0 {
		return
	}
	if d.kept[hash]++; d.kept[hash] > 1 {
		d.repeat = true
	}
	for len(d.kept) > sampled {
		d.zeros++
		for hash := range d.kept {
			if hash&(1<<d.zeros-1) != 0 {
				delete(d.kept, hash)
			}
		}
	}
}

// count returns the approximate number of different texts.
func (d *distinct) count() int { return len(d.kept) << d.zeros }
