package screen

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

const (
	// maxTexts is the maximum number of different words of a categorical column, and maxWords what a column records.
	maxTexts = 1000
	maxWords = maxTexts + 1
	// maxOdd is the maximum number of different missing-value texts of a numeric column.
	maxOdd = 3
)

// Columns describes the columns of a table, from which their roles follow. It is a [layout.Survey] of all rows. Memory does not depend on
// the length of the table.
type Columns struct {
	list    []*column // in the order of the file
	missing value.Missing
}

// NewColumns returns no columns. missing are missing-value texts, in addition to the empty cell.
func NewColumns(missing []string) *Columns { return &Columns{missing: value.MissingOf(missing)} }

// Wants implements [layout.Survey].
func (t *Columns) Wants(c layout.Cell) bool { return isWords(c.Field) }

// More implements [layout.Survey].
func (t *Columns) More(int) int { return 1024 }

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

	words  map[string]int  // number of occurrences of each of the first maxWords different words
	repeat bool            // one of them occurs again
	odd    map[string]bool // non-numeric words, at most one more than maxOdd
	counts bool            // each number is the previous one plus one
	last   float64
}

func newColumn(at int, f tabular.Field) *column {
	return &column{Field: f, at: at, whole: true, counts: true, min: math.Inf(1), max: math.Inf(-1), words: map[string]int{},
		odd: map[string]bool{}}
}

// present returns the number of cells with a value.
func (c *column) present() int { return c.rows - c.missing }

// frequent returns the first maxWords different words, the most frequent first.
func (c *column) frequent() []string {
	return slices.SortedFunc(maps.Keys(c.words), func(a, b string) int { return cmp.Or(c.words[b]-c.words[a], cmp.Compare(a, b)) })
}

// different says how many different words there are.
func (c *column) different() string {
	if len(c.words) == maxWords {
		return "more than " + humanize.Comma(maxTexts)
	}
	return humanize.Comma(int64(len(c.words)))
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
	if n, known := c.words[word]; known {
		c.words[word], c.repeat = n+1, true
	} else if len(c.words) < maxWords {
		c.words[strings.Clone(word)] = 1
	}
	v, err := value.Number(text)
	if err != nil || math.IsInf(v, 0) {
		if c.counts = false; len(c.odd) <= maxOdd && !c.odd[text] {
			c.odd[strings.Clone(text)] = true
		}
		return
	}
	if _, boolean := value.Boolean(text); boolean {
		c.booleans++
	}
	c.counts = c.counts && (c.numbers == 0 || v == c.last+1)
	c.numbers++
	c.last, c.min, c.max, c.whole = v, min(c.min, v), max(c.max, v), c.whole && v == math.Trunc(v)
}

// dates reports whether the words are dates or times, with few exceptions, whether ingest can parse all of them, and whether they have
// times of day.
func (c *column) dates() (are, parsed, clock bool) {
	words, dates := 0, 0 // rows of them
	parsed = c.numbers == 0
	for word, rows := range c.words {
		if _, err := value.Number(word); err == nil {
			continue
		}
		if words += rows; isDate(word) {
			dates += rows
		}
		t, err := value.Time(word, "")
		parsed = parsed && err == nil
		clock = clock || err == nil && t.Hour()+t.Minute()+t.Second() > 0
	}
	return c.numbers*20 <= c.present() && words > 0 && dates*20 >= words*19, parsed, clock
}

// parts returns the features of a time column: its age and weekday, and the hour if it has times of day.
func (c *column) parts() []string {
	if _, _, clock := c.dates(); clock || strings.HasPrefix(strings.ToLower(c.Type), "timestamp") {
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

// columnRole is the role of a column.
type columnRole string

// The roles of columns.
const (
	roleLabel      columnRole = "label"
	roleTarget     columnRole = "target" // a regression target
	roleNumber     columnRole = "number"
	roleCategory   columnRole = "category"
	roleList       columnRole = "list" // of all features
	roleText       columnRole = "text" // its words are counted
	roleIdentifier columnRole = "identifier"
	roleTime       columnRole = "time" // its parts become features
	roleDate       columnRole = "date" // or a time, in a format that ingest can't parse
	roleConstant   columnRole = "constant"
	roleUnused     columnRole = "unused"
)

// dropped says why a column is dropped.
func (c *column) dropped() string {
	if c.role == roleUnused {
		return c.why
	}
	return string(c.role) + ": " + c.why
}

// assign gives the columns of a table with this label their roles.
func (t *Columns) assign(label layout.Column) error {
	if len(t.list) == 0 {
		return errors.New("no column of text, numbers or booleans, one of which is the label")
	}
	for _, c := range t.list {
		_, err := strconv.Atoi(c.Name)
		same := func(other *column) bool { return other != c && other.Name == c.Name }
		if c.key = c.Name; c.Name == "" || err == nil || slices.ContainsFunc(t.list, same) {
			c.key = strconv.Itoa(c.at)
		}
	}
	at, err := t.find(label)
	if err != nil {
		return err
	}
	for i, c := range t.list {
		if i != at {
			c.role, c.why = c.feature()
		} else if c.role, c.why, err = c.label(); err != nil {
			return fmt.Errorf("column %s: %w", c.key, err)
		}
	}
	settle(t.list)
	return nil
}

// settle chooses between incompatible columns: the features are one list, or one text, or separate columns.
func settle(columns []*column) {
	has := func(role columnRole) bool {
		return slices.ContainsFunc(columns, func(c *column) bool { return c.role == role })
	}
	table := has(roleNumber) || has(roleCategory)
	single := table
	for _, a := range columns {
		switch {
		case a.role == roleList && single:
			a.role, a.why = roleUnused, "a list of features excludes other columns"
		case a.role == roleText && single && !table:
			a.role, a.why = roleUnused, a.why+": examples.text supports one column"
		case a.role == roleText && single:
			a.role, a.why = roleUnused, a.why+": trees do not read texts; examples.text and a stage of kind columns do"
		case a.role == roleList || a.role == roleText:
			single = true
		}
	}
	for _, a := range columns { // a list or a text excludes others
		if a.role == roleTime && (has(roleList) || has(roleText)) {
			a.role = roleDate
		}
	}
}

// find returns the number of the label column.
func (t *Columns) find(label layout.Column) (int, error) {
	var names []string
	orName := ", or a name that the first row has" // a name implies a header
	for _, c := range t.list {
		if names = append(names, c.key); c.Name != "" {
			orName = ""
		}
	}
	at, isNumber := label.Number()
	if !isNumber {
		at = slices.Index(names, string(label))
	}
	switch {
	case label == "":
		return 0, fmt.Errorf("expected --label and one of the columns %s%s", layout.SomeNames(names), orName)
	case at < 0 || at >= len(names):
		return 0, fmt.Errorf("--label: %s: expected one of the columns %s", value.Quote(string(label)), layout.SomeNames(names))
	}
	return at, nil
}

const (
	fewRows  = 20  // with fewer rows, distinct values prove nothing
	textSize = 4   // words in a cell of a text column
	maxLabel = 100 // integers in a wider range are targets
	topWords = 3   // number of words shown
	maxPlain = 40  // maximum length of a word shown in full
)

// idName matches names of identifiers.
var idName = regexp.MustCompile(`(?i)^(id|ids|uuid|guid|key|index|idx|row|rownum|row_?number|row_?id|no|nr|unnamed: ?\d+|)$|` +
	`[_ .-](id|uuid|guid|key|no|nr|number|index)$|^id[_ .-]?(no|nr|number)?$|(?-i:[a-z](ID|Id)$)`)

// feature returns the role of a column that is not the label.
func (c *column) feature() (role columnRole, why string) {
	dates, parsed, clock := c.dates()
	switch {
	case c.Kind == tabular.List:
		return roleList, c.Type
	case !isWords(c.Field) && readType.MatchString(c.Type):
		return roleTime, c.Type
	case !isWords(c.Field) && timeType.MatchString(c.Type):
		return roleDate, c.Type
	case !isWords(c.Field):
		return roleUnused, c.Type + ": neither numbers nor words"
	case len(c.words) == 0:
		return roleConstant, "no values"
	case len(c.words) == 1 && c.missing == 0:
		return roleConstant, "always " + value.Quote(c.frequent()[0])
	case dates && parsed && clock:
		return roleTime, c.withMissing("dates and times of day")
	case dates && parsed:
		return roleTime, c.withMissing("dates")
	case dates:
		return roleDate, "dates or times"
	case c.isNumeric():
		role, why = c.number()
	default:
		role, why = c.word()
	}
	format := c.formatted()
	switch {
	case format == "" || role == roleIdentifier && idName.MatchString(c.Name):
	case role == roleIdentifier || role == roleText:
		return roleUnused, format
	default:
		why += "; " + format
	}
	return role, why
}

// word returns the role of a column of words or texts.
func (c *column) word() (columnRole, string) {
	present, few := c.present(), len(c.words) < maxWords
	varied := !few || len(c.words)*2 > present
	rows, spoken := 0, 0.0
	for word, n := range c.words {
		rows, spoken = rows+n, spoken+float64(n*len(strings.Fields(word)))
	}
	switch spoken /= float64(rows); {
	case varied && spoken >= textSize:
		return roleText, fmt.Sprintf("texts of %.0f words on average", spoken)
	case !c.repeat && present >= fewRows:
		return roleIdentifier, "text, all different"
	case varied && (!few || present >= fewRows):
		return roleIdentifier, fmt.Sprintf("%s different words in %s rows", c.different(), humanize.Comma(int64(present)))
	}
	return roleCategory, c.withMissing(fmt.Sprintf("%d words: %s", len(c.words), c.shown(topWords, false)))
}

// number returns the role of a numeric column.
func (c *column) number() (columnRole, string) {
	switch {
	case c.booleans == c.numbers:
		return roleNumber, c.withMissing("true and false")
	case c.counts && c.rows >= fewRows:
		return roleIdentifier, fmt.Sprintf("numbers the rows, from %s", plainNumber(c.min))
	case c.whole && !c.repeat && c.present() >= fewRows && idName.MatchString(c.Name):
		return roleIdentifier, "whole numbers, all different"
	}
	kind := ""
	if c.whole {
		kind = "whole, "
	}
	return roleNumber, c.withMissing(fmt.Sprintf("%s%s to %s", kind, plainNumber(c.min), plainNumber(c.max)))
}

// withMissing adds the number of missing values.
func (c *column) withMissing(why string) string {
	missing := c.missing
	odd := c.missingWords()
	if len(odd) > 0 {
		missing += c.present() - c.numbers
	}
	if missing > 0 {
		why += "; missing in " + rowCount(missing)
	}
	for i, word := range odd {
		odd[i] = quoted(word)
	}
	if len(odd) > 0 {
		why += " (" + strings.Join(odd, ", ") + ")"
	}
	return why
}

// rowCount formats a number of rows.
func rowCount(n int) string { return english.Plural(n, "row", "") }

// label reports whether a label column has labels or targets.
func (c *column) label() (role columnRole, why string, err error) {
	present, different := c.present(), len(c.words)
	switch {
	case !isWords(c.Field):
		return "", "", fmt.Errorf("labels of type %s: expected text, numbers or booleans", c.Type)
	case present == 0:
		return "", "", errors.New("no row has a label")
	case c.isNumeric() && (!c.whole || different > maxLabel):
		if missing := c.rows - c.numbers; missing > 0 {
			return "", "", fmt.Errorf("no target in %s: remove them", rowCount(missing))
		}
		return roleTarget, fmt.Sprintf("numbers, %s to %s", plainNumber(c.min), plainNumber(c.max)), nil
	case different == 1:
		return "", "", fmt.Errorf("each label is %s: expected at least two", value.Quote(c.frequent()[0]))
	case different > maxLabel && c.formatted() != "":
		return "", "", errors.New(c.formatted())
	case different > maxLabel && different*2 > present || different > maxTexts:
		return "", "", fmt.Errorf("%s different values in %s rows are no labels", c.different(), humanize.Comma(int64(present)))
	}
	why = fmt.Sprintf("%d labels: %s", different, c.shown(maxShares, true))
	if c.missing > 0 {
		why += "; none in " + rowCount(c.missing)
	}
	if format := c.formatted(); format != "" {
		why += "; " + format
	}
	return roleLabel, why, nil
}

var (
	// timeType matches the types of dates and times in files, and readType those that ingest can read.
	timeType = regexp.MustCompile(`(?i)date|time|duration`)
	readType = regexp.MustCompile(`(?i)^(timestamp|date(32|64)?$)`)
)

// maxShares is the maximum number of labels shown with their shares.
const maxShares = 5

// shown lists the most frequent words, with their shares of the rows if asked for.
func (c *column) shown(most int, shares bool) string {
	words := c.frequent()
	more := len(words) > most
	words = words[:min(len(words), most)]
	for i, word := range words {
		if words[i] = quoted(word); shares {
			words[i] += fmt.Sprintf(" %.3g %%", 100*float64(c.words[word])/float64(c.present()))
		}
	}
	if more {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

// plainNumber formats a number.
func plainNumber(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

var plainWord = regexp.MustCompile(`^[\pL\pN_.+-]+$`)

// quoted formats a word, in quotes if it has other characters than letters and digits.
func quoted(word string) string {
	if plainWord.MatchString(word) && len(word) <= maxPlain {
		return word
	}
	return value.Quote(word)
}
