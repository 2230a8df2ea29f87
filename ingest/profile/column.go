package profile

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest/format"
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

// Column is the profile of a table column.
type Column struct {
	format.Column
	At       int     // number of the column, from 0
	Rows     int     // number of rows of the table
	Missing  int     // number of empty cells and missing-value texts
	Numbers  int     // number of numeric cells
	Booleans int     // number of these that are true or false
	Whole    bool    // all numbers are integers
	Min, Max float64 // of the numbers

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

func newColumn(at int, described format.Column) *Column {
	return &Column{Column: described, At: at, Whole: true, counts: true, Min: math.Inf(1), Max: math.Inf(-1), different: newDistinct(),
		words: map[string]int{}, odd: map[string]int{}}
}

// Present returns the number of cells with a value.
func (c *Column) Present() int { return c.Rows - c.Missing }

// Different returns the number of different values; above 16,384 it is an estimate.
func (c *Column) Different() int { return c.different.count() }

// Words returns the different words with their frequencies, most frequent first; ok is false if there are more than 1000.
func (c *Column) Words() (words []Word, ok bool) {
	for text, n := range c.words {
		words = append(words, Word{text, n})
	}
	slices.SortFunc(words, func(a, b Word) int { return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Text, b.Text)) })
	return words, len(words) < maxWords
}

// Word is a word of a column with its number of rows.
type Word struct {
	Text string
	Rows int
}

// MissingWords are the non-numeric words of a numeric column, as written, sorted.
func (c *Column) MissingWords() []string {
	if !c.IsNumeric() {
		return nil
	}
	return slices.Sorted(maps.Keys(c.odd))
}

// IsNumeric reports whether the column is numeric, except for a few other words that indicate missing numbers.
func (c *Column) IsNumeric() bool {
	switch present := c.Present(); {
	case !c.Column.Numbers || c.Numbers == 0:
		return false
	case c.Numbers == present:
		return true
	default:
		return c.Type == "" && len(c.odd) <= maxOdd && c.Numbers*10 >= present*9
	}
}

// add adds a cell.
func (c *Column) add(text string, missing value.Missing) {
	c.Rows++
	if text = strings.TrimSpace(text); missing.HasNumberText(text) {
		c.Missing++
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
		c.Booleans++
	}
	c.counts = c.counts && (c.Numbers == 0 || v == c.last+1)
	c.Numbers++
	c.last, c.Min, c.Max, c.Whole = v, min(c.Min, v), max(c.Max, v), c.Whole && v == math.Trunc(v)
}

// addWord adds a non-numeric cell.
func (c *Column) addWord(text string) {
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
func (c *Column) areDates() bool {
	return c.Numbers*20 <= c.Present() && c.tried > 0 && c.dates*20 >= c.tried*19
}

// areTimes reports whether all checked non-numeric cells are dates or times that ingest can parse, and there are few
// others.
func (c *Column) areTimes() bool { return c.Numbers == 0 && c.times > 0 && c.times == c.tried }

// Parts returns the features of a time column: its age and weekday, and the hour if it has times of day.
func (c *Column) Parts() []string {
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
