package compare

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas/examples"
)

// table has a row for each run, and a column for each thing in which they differ.
type table struct {
	Caption string
	Columns []column
	Rows    []tableRow
	Same    []string // measures that all runs have the same value of, and what it is
	Parts   []part   // as it is shown: the columns that fit beside each other, and below them the others, with the same rows
}

// part has some of the columns of a table, and all of its rows.
type part struct {
	Caption string
	Columns []column
	Groups  []group // of columns whose keys begin alike
	Rows    []tableRow
	Narrow  bool // it fits in a window of a tablet
}

// column is a thing in which runs differ.
type column struct {
	Name   string
	Plan   bool // it is a field of the plans
	Number bool
}

// Prefix returns what a key has before its last part, such as stages.*.features; "" for a key of one part, and for measures.
func (c column) Prefix() string {
	if at := strings.LastIndexByte(c.Name, '.'); c.Plan && at >= 0 {
		return c.Name[:at]
	}
	return ""
}

// Leaf returns the last part of a key, and the name of a measure.
func (c column) Leaf() string { return strings.TrimPrefix(strings.TrimPrefix(c.Name, c.Prefix()), ".") }

// group is how many columns have a prefix.
type group struct {
	Prefix  string
	Columns int
}

// tableRow is a run.
type tableRow struct {
	runOnPage
	Best  bool
	Cells []tableCell
}

// tableCell is a value of a run.
type tableCell struct {
	column
	Value   string
	Differs bool // a field of the plan, that is another in the run with the best predictions
}

// Pixels of a table: what the page has at 1280 and at 768 for the columns besides that of the runs, a character, and what is around a cell.
const (
	tableWidth  = 940
	narrowWidth = 500
	charWidth   = 8
	cellSpace   = 16
)

// maxCell is how many characters of a value are on one line.
const maxCell = 40

// Long reports whether a value is broken into lines.
func (c tableCell) Long() bool { return utf8.RuneCountInString(c.Value) > maxCell }

// tablesOf returns the tables of runs, which are in their order: of their settings and the measures that decide, and of the other measures.
func tablesOf(runs []Run, by Order) (first, more table) {
	first.Caption = "Runs by " + by.Words(runs) + ", best first. In color: settings that differ from the best run"
	more.Caption = "Other measures"
	best := by.Best(runs)
	for i, r := range runs {
		row := tableRow{runOnPage: runOnPage{colourOf(i), r}, Best: i == best}
		first.Rows, more.Rows = append(first.Rows, row), append(more.Rows, row)
	}
	for _, row := range settings(runs) {
		first.add(column{Name: row.Name, Plan: true}, row.Values, best)
	}
	measures := Measures(runs)
	for i, row := range measures {
		repeated := slices.ContainsFunc(measures[:i], func(before Row) bool { // as a loss that is the log loss
			return strings.Fields(before.Name)[0] == strings.Fields(row.Name)[0] && slices.Equal(before.Values, row.Values)
		})
		switch to := &more; {
		case repeated, row.Name == "weights digest": // a run that is another has another
		case row.same():
			first.Same = append(first.Same, row.Name+" "+row.Values[0])
		default:
			if decides(row.Name, measures) || isMeasure(row.Name, by.Measure()) {
				to = &first
			}
			to.add(column{Name: row.Name, Number: row.Name != "state"}, row.Values, best)
		}
	}
	for at := len(first.Columns) - 1; at >= 0 && first.widths(first.all()) > tableWidth; at-- { // fewer measures fit beside many settings
		name := first.Columns[at].Name
		if train := strings.HasPrefix(name, examples.Train.String()+" "); first.Columns[at].Number && !isMeasure(name, by.Measure()) &&
			(train || !isMeasure(name, "error")) {
			more.moveColumn(&first, at)
		}
	}
	first.lay()
	more.lay()
	return first, more
}

// moveColumn moves a column from another table to the beginning of this one.
func (t *table) moveColumn(from *table, at int) {
	t.Columns = slices.Insert(t.Columns, 0, from.Columns[at])
	from.Columns = slices.Delete(from.Columns, at, at+1)
	for i := range t.Rows {
		t.Rows[i].Cells = slices.Insert(t.Rows[i].Cells, 0, from.Rows[i].Cells[at])
		from.Rows[i].Cells = slices.Delete(from.Rows[i].Cells, at, at+1)
	}
}

// width returns about how many pixels a column has, whose name is broken between words.
func (t *table) width(at int) int {
	longest := 0
	for _, word := range strings.FieldsFunc(t.Columns[at].Leaf(), func(r rune) bool { return r == ' ' || r == '_' || r == '.' }) {
		longest = max(longest, utf8.RuneCountInString(word)+1)
	}
	for _, row := range t.Rows {
		longest = max(longest, min(utf8.RuneCountInString(row.Cells[at].Value), maxCell))
	}
	return longest*charWidth + cellSpace
}

// widths returns about how many pixels columns have.
func (t *table) widths(columns []int) (pixels int) {
	for _, at := range columns {
		pixels += t.width(at)
	}
	return pixels
}

// all returns the numbers of the columns.
func (t *table) all() (list []int) {
	for at := range t.Columns {
		list = append(list, at)
	}
	return list
}

// lay divides the columns into parts that fit in a window, of about the same width: the first settings beside the measures that decide, and
// below them the other settings. Settings whose keys begin alike are beside each other. Measures alone are parts in their order.
func (t *table) lay() {
	var settings, beside []int
	var prefixes []string
	for _, at := range t.all() {
		if c := t.Columns[at]; c.Plan {
			settings, prefixes = append(settings, at), append(prefixes, c.Prefix())
		} else {
			beside = append(beside, at)
		}
	}
	slices.SortStableFunc(settings, func(a, b int) int {
		return slices.Index(prefixes, t.Columns[a].Prefix()) - slices.Index(prefixes, t.Columns[b].Prefix())
	})
	caption, further := t.Caption, "Further settings"
	if len(settings) == 0 {
		settings, beside, further = beside, nil, "Further measures"
	}
	divided, width := t.divided(settings, t.widths(beside), tableWidth), tableWidth
	for narrower := divided; len(narrower) == len(divided) && width > 0; narrower = t.divided(settings, t.widths(beside), width) {
		divided, width = narrower, width-charWidth
	}
	for _, columns := range divided {
		t.Parts = append(t.Parts, t.part(caption, append(columns, beside...)))
		beside, caption = nil, further
	}
}

// divided returns columns in lists that are at most so wide if they have two columns. The first list is beside others of some width.
func (t *table) divided(columns []int, beside, width int) (lists [][]int) {
	for _, at := range columns {
		last := len(lists) - 1
		if more := beside + t.width(at); last < 0 || more > width {
			lists, beside = append(lists, []int{at}), t.width(at)
			if last < 0 {
				beside = more
			}
		} else {
			lists[last], beside = append(lists[last], at), more
		}
	}
	return lists
}

// part returns the part of a table with these columns.
func (t *table) part(caption string, columns []int) part {
	p, prefixed := part{Caption: caption}, false
	for _, at := range columns {
		c := t.Columns[at]
		p.Columns = append(p.Columns, c)
		prefixed = prefixed || c.Prefix() != ""
		if last := len(p.Groups) - 1; last >= 0 && p.Groups[last].Prefix == c.Prefix() {
			p.Groups[last].Columns++
		} else {
			p.Groups = append(p.Groups, group{c.Prefix(), 1})
		}
	}
	if !prefixed {
		p.Groups = nil
	}
	for _, row := range t.Rows {
		of := tableRow{runOnPage: row.runOnPage, Best: row.Best}
		for _, at := range columns {
			of.Cells = append(of.Cells, row.Cells[at])
		}
		p.Rows = append(p.Rows, of)
	}
	p.Narrow = t.widths(columns) <= narrowWidth
	return p
}

// decides reports whether people choose a run by a measure. Of training rows the error is enough where others were measured.
func decides(measure string, all []Row) bool {
	if measure == "state" || measure == "seconds" {
		return true
	}
	train := examples.Train.String()
	others := slices.ContainsFunc(all, func(r Row) bool { return strings.HasSuffix(r.Name, " error") && !strings.HasPrefix(r.Name, train) })
	for _, what := range []string{"error", "loss", "AUC", "RMSE", "R²"} {
		if isMeasure(measure, what) {
			return what == "error" || !others || !strings.HasPrefix(measure, train)
		}
	}
	return false
}

// isMeasure reports whether a measure of some split is what: "train balanced error" is no error.
func isMeasure(measure, what string) bool {
	return slices.ContainsFunc(splits(), func(split string) bool { return measure == split+" "+what })
}

// add adds a column, given the number of the best run, or −1.
func (t *table) add(c column, values []string, best int) {
	t.Columns = append(t.Columns, c)
	for i, v := range values {
		t.Rows[i].Cells = append(t.Rows[i].Cells, tableCell{c, v, c.Plan && best >= 0 && v != values[best]})
	}
}

// settings returns in what the runs were to differ, or else in what their plans do.
func settings(runs []Run) (rows []Row) {
	for _, r := range runs {
		for _, s := range r.Settings {
			if !slices.ContainsFunc(rows, func(row Row) bool { return row.Name == s.Key }) {
				rows = append(rows, Row{Name: s.Key})
			}
		}
	}
	if len(rows) == 0 {
		return Differences(runs)
	}
	for i := range rows {
		for _, r := range runs {
			value := None
			if at := slices.IndexFunc(r.Settings, func(s Setting) bool { return s.Key == rows[i].Name }); at >= 0 {
				value = r.Settings[at].Value
			}
			rows[i].Values = append(rows[i].Values, value)
		}
	}
	return rows
}
