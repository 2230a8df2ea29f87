package profile

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

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// Role is the role of a column.
type Role string

// The roles of columns.
const (
	Label      Role = "label"
	Target     Role = "target" // a regression target
	Number     Role = "number"
	Category   Role = "category"
	List       Role = "list" // of all features
	Text       Role = "text" // its words are counted
	Identifier Role = "identifier"
	Time       Role = "time" // its parts become features
	Date       Role = "date" // or a time, in a format that ingest can't parse
	Constant   Role = "constant"
	Unused     Role = "unused"
)

// IsDropped reports whether a column with the role is not a feature.
func (r Role) IsDropped() bool {
	return r == Identifier || r == Date || r == Constant || r == Unused
}

// Assigned is a column with its role.
type Assigned struct {
	*Column
	Role Role
	Why  string // description of the column, and why it is dropped
}

// Roles returns the roles of the columns of a table with this label.
func (t *Table) Roles(label layout.Column) ([]Assigned, error) {
	at, err := t.find(label)
	if err != nil {
		return nil, err
	}
	roles := make([]Assigned, len(t.List))
	for i, c := range t.List {
		role, why := c.feature()
		if i == at {
			if role, why, err = c.label(); err != nil {
				return nil, fmt.Errorf("column %s: %w", c.Key(t), err)
			}
		}
		roles[i] = Assigned{c, role, why}
	}
	settle(roles)
	return roles, nil
}

// settle chooses between incompatible columns: the features are one list, or one text, or separate columns.
func settle(roles []Assigned) {
	has := func(role Role) bool {
		return slices.ContainsFunc(roles, func(a Assigned) bool { return a.Role == role })
	}
	table := has(Number) || has(Category)
	single := table
	for i := range roles {
		switch a := &roles[i]; {
		case a.Role == List && single:
			a.Role, a.Why = Unused, "a list of features excludes other columns"
		case a.Role == Text && single && !table:
			a.Role, a.Why = Unused, a.Why+": examples.text supports one column"
		case a.Role == Text && single:
			a.Role, a.Why = Unused, a.Why+": trees do not read texts; examples.text and a stage of kind columns do"
		case a.Role == List || a.Role == Text:
			single = true
		}
	}
	for i := range roles { // a list or a text excludes others
		if a := &roles[i]; a.Role == Time && (has(List) || has(Text)) {
			a.Role = Date
		}
	}
}

// find returns the number of the label column.
func (t *Table) find(label layout.Column) (int, error) {
	var names []string
	orName := ", or a name that the first row has" // a name implies a header
	for _, c := range t.List {
		if names = append(names, c.Key(t)); c.Name != "" {
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

// Key returns the column's key in options: its number, if its name is empty, looks like a number, or is not unique.
func (c *Column) Key(t *Table) string {
	_, err := strconv.Atoi(c.Name)
	same := func(other *Column) bool { return other != c && other.Name == c.Name }
	if c.Name == "" || err == nil || slices.ContainsFunc(t.List, same) {
		return strconv.Itoa(c.At)
	}
	return c.Name
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
func (c *Column) feature() (role Role, why string) {
	present, different := c.Present(), c.Different()
	all := different == present && !c.different.repeat
	switch {
	case c.List:
		return List, c.Type
	case !c.Column.Words && isReadType(c.Type):
		return Time, c.Type
	case !c.Column.Words && isTimeType(c.Type):
		return Date, c.Type
	case !c.Column.Words:
		return Unused, c.Type + ": neither numbers nor words"
	case present == 0:
		return Constant, "no values"
	case different == 1 && c.Missing == 0:
		words, _ := c.Words()
		return Constant, "always " + value.Quote(words[0].Text)
	case c.areTimes() && c.areDates() && c.clock:
		return Time, c.withMissing("dates and times of day")
	case c.areTimes() && c.areDates():
		return Time, c.withMissing("dates")
	case c.areDates():
		return Date, "dates or times"
	case c.IsNumeric():
		role, why = c.number(all)
	default:
		role, why = c.word(all)
	}
	format := c.Formatted()
	switch {
	case format == "" || role == Identifier && idName.MatchString(c.Name):
	case role == Identifier || role == Text:
		return Unused, format
	default:
		why += "; " + format
	}
	return role, why
}

// word returns the role of a column of words or texts.
func (c *Column) word(all bool) (Role, string) {
	present, different := c.Present(), c.Different()
	texts := c.spoken >= textSize*present
	switch words, few := c.Words(); {
	case texts && (!few || different*2 > present):
		return Text, fmt.Sprintf("texts of %d words on average", (c.spoken+present/2)/present)
	case all && present >= fewRows:
		return Identifier, "text, all different"
	case !few:
		return Identifier, fmt.Sprintf("about %s different words: more than %d", humanize.Comma(int64(different)), maxTexts)
	case different*2 > present && present >= fewRows:
		return Identifier, fmt.Sprintf("%s different words in %s rows", humanize.Comma(int64(different)), humanize.Comma(int64(present)))
	default:
		return Category, c.withMissing(fmt.Sprintf("%d words: %s", len(words), some(words)))
	}
}

// number returns the role of a numeric column.
func (c *Column) number(all bool) (Role, string) {
	switch {
	case c.Booleans == c.Numbers:
		return Number, c.withMissing("true and false")
	case c.counts && c.Rows >= fewRows:
		return Identifier, fmt.Sprintf("numbers the rows, from %s", number(c.Min))
	case c.Whole && all && c.Present() >= fewRows && idName.MatchString(c.Name):
		return Identifier, "whole numbers, all different"
	}
	kind := ""
	if c.Whole {
		kind = "whole, "
	}
	return Number, c.withMissing(fmt.Sprintf("%s%s to %s", kind, number(c.Min), number(c.Max)))
}

// withMissing adds the number of missing values.
func (c *Column) withMissing(why string) string {
	missing := c.Missing
	odd := c.MissingWords()
	if len(odd) > 0 {
		missing += c.Present() - c.Numbers
	}
	if missing > 0 {
		why += "; missing in " + rows(missing)
	}
	for i, word := range odd {
		odd[i] = quoted(word)
	}
	if len(odd) > 0 {
		why += " (" + strings.Join(odd, ", ") + ")"
	}
	return why
}

// rows formats a number of rows.
func rows(n int) string { return english.Plural(n, "row", "") }

// label reports whether a label column has labels or targets.
func (c *Column) label() (role Role, why string, err error) {
	present, different := c.Present(), c.Different()
	switch {
	case !c.Column.Words:
		return "", "", fmt.Errorf("labels of type %s: expected text, numbers or booleans", c.Type)
	case present == 0:
		return "", "", errors.New("no row has a label")
	case c.IsNumeric() && (!c.Whole || different > maxLabel):
		if missing := c.Rows - c.Numbers; missing > 0 {
			return "", "", fmt.Errorf("no target in %s: remove them", rows(missing))
		}
		return Target, fmt.Sprintf("numbers, %s to %s", number(c.Min), number(c.Max)), nil
	case different == 1:
		words, _ := c.Words()
		return "", "", fmt.Errorf("each label is %s: expected at least two", value.Quote(words[0].Text))
	case different > maxLabel && c.Formatted() != "":
		return "", "", errors.New(c.Formatted())
	case different > maxLabel && different*2 > present || different > maxTexts:
		return "", "", fmt.Errorf("%s different values in %s rows are no labels", humanize.Comma(int64(different)),
			humanize.Comma(int64(present)))
	}
	words, _ := c.Words()
	why = fmt.Sprintf("%d labels: %s", len(words), shares(words, present))
	if c.Missing > 0 {
		why += "; none in " + rows(c.Missing)
	}
	if format := c.Formatted(); format != "" {
		why += "; " + format
	}
	return Label, why, nil
}

// isTimeType reports whether a file's type is a date or time type.
func isTimeType(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"date", "time", "duration"}, func(word string) bool { return strings.Contains(name, word) })
}

// isReadType reports whether a file's type is a date or time type that ingest can read.
func isReadType(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "timestamp") || slices.Contains([]string{"date", "date32", "date64"}, name)
}

// some lists the most frequent words.
func some(words []Word) string {
	var list []string
	for _, w := range words[:min(len(words), topWords)] {
		list = append(list, quoted(w.Text))
	}
	if len(words) > topWords {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// maxShares is the maximum number of labels shown with their shares.
const maxShares = 5

// shares lists the most frequent labels with their shares of the rows.
func shares(words []Word, rows int) string {
	var list []string
	for i, w := range words {
		if i == maxShares {
			return strings.Join(append(list, "…"), ", ")
		}
		list = append(list, fmt.Sprintf("%s %.3g %%", quoted(w.Text), 100*float64(w.Rows)/float64(rows)))
	}
	return strings.Join(list, ", ")
}

// number formats a number.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

var plain = regexp.MustCompile(`^[\pL\pN_.+-]+$`)

// quoted formats a word, in quotes if it has other characters than letters and digits.
func quoted(word string) string {
	if plain.MatchString(word) && len(word) <= maxPlain {
		return word
	}
	return value.Quote(word)
}
