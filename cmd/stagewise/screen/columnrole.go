package screen

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

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

// isDropped reports whether a column with the role is not a feature.
func (r columnRole) isDropped() bool {
	return r == roleIdentifier || r == roleDate || r == roleConstant || r == roleUnused
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
	fewRows  = 20   // with fewer rows, distinct values prove nothing
	textSize = 4    // words in a cell of a text column
	maxLabel = 100  // integers in a wider range are targets
	topWords = 3    // number of words shown
	maxTexts = 1000 // maximum number of words of a categorical column
	maxPlain = 40   // maximum length of a word shown in full
)

// idName matches names of identifiers.
var idName = regexp.MustCompile(`(?i)^(id|ids|uuid|guid|key|index|idx|row|rownum|row_?number|row_?id|no|nr|unnamed: ?\d+|)$|` +
	`[_ .-](id|uuid|guid|key|no|nr|number|index)$|^id[_ .-]?(no|nr|number)?$|(?-i:[a-z](ID|Id)$)`)

// feature returns the role of a column that is not the label.
func (c *column) feature() (role columnRole, why string) {
	present, different := c.present(), c.different.count()
	all := different == present && !c.different.repeat
	switch {
	case c.Kind == tabular.List:
		return roleList, c.Type
	case !isWords(c.Field) && readType.MatchString(c.Type):
		return roleTime, c.Type
	case !isWords(c.Field) && timeType.MatchString(c.Type):
		return roleDate, c.Type
	case !isWords(c.Field):
		return roleUnused, c.Type + ": neither numbers nor words"
	case present == 0:
		return roleConstant, "no values"
	case different == 1 && c.missing == 0:
		words, _ := c.counted()
		return roleConstant, "always " + value.Quote(words[0].text)
	case c.areTimes() && c.areDates() && c.clock:
		return roleTime, c.withMissing("dates and times of day")
	case c.areTimes() && c.areDates():
		return roleTime, c.withMissing("dates")
	case c.areDates():
		return roleDate, "dates or times"
	case c.isNumeric():
		role, why = c.number(all)
	default:
		role, why = c.word(all)
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
func (c *column) word(all bool) (columnRole, string) {
	present, different := c.present(), c.different.count()
	texts := c.spoken >= textSize*present
	switch words, few := c.counted(); {
	case texts && (!few || different*2 > present):
		return roleText, fmt.Sprintf("texts of %d words on average", (c.spoken+present/2)/present)
	case all && present >= fewRows:
		return roleIdentifier, "text, all different"
	case !few:
		return roleIdentifier, fmt.Sprintf("about %s different words: more than %d", humanize.Comma(int64(different)), maxTexts)
	case different*2 > present && present >= fewRows:
		return roleIdentifier, fmt.Sprintf("%s different words in %s rows", humanize.Comma(int64(different)), humanize.Comma(int64(present)))
	default:
		return roleCategory, c.withMissing(fmt.Sprintf("%d words: %s", len(words), frequent(words, topWords, 0)))
	}
}

// number returns the role of a numeric column.
func (c *column) number(all bool) (columnRole, string) {
	switch {
	case c.booleans == c.numbers:
		return roleNumber, c.withMissing("true and false")
	case c.counts && c.rows >= fewRows:
		return roleIdentifier, fmt.Sprintf("numbers the rows, from %s", plainNumber(c.min))
	case c.whole && all && c.present() >= fewRows && idName.MatchString(c.Name):
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
	present, different := c.present(), c.different.count()
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
		words, _ := c.counted()
		return "", "", fmt.Errorf("each label is %s: expected at least two", value.Quote(words[0].text))
	case different > maxLabel && c.formatted() != "":
		return "", "", errors.New(c.formatted())
	case different > maxLabel && different*2 > present || different > maxTexts:
		return "", "", fmt.Errorf("%s different values in %s rows are no labels", humanize.Comma(int64(different)),
			humanize.Comma(int64(present)))
	}
	words, _ := c.counted()
	why = fmt.Sprintf("%d labels: %s", len(words), frequent(words, maxShares, present))
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

// frequent lists the most frequent words, with their shares of the rows if there are rows.
func frequent(words []word, most, rows int) string {
	var listed []string
	for _, w := range words[:min(len(words), most)] {
		text := quoted(w.text)
		if rows > 0 {
			text = fmt.Sprintf("%s %.3g %%", text, 100*float64(w.rows)/float64(rows))
		}
		listed = append(listed, text)
	}
	if len(words) > most {
		listed = append(listed, "…")
	}
	return strings.Join(listed, ", ")
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
