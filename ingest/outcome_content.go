package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// predicted describes the content of outcomes: it reads the labels or targets of an outcome, and fills the columns of rows that come
// from outcomes. predictedOf returns it.
//
// Until its row is an example, package outcome stores the content of an outcome, also on disk, as the encoding of the cells that the row
// gets: the label, a list of several labels or a text of them, or the targets.
type predicted struct {
	Task    examples.Task
	Label   string   // path of the label, or of several
	Columns []string // paths of the targets, or of 0/1 columns for each of several labels; then there is no Label
	Absent  []string // values for rows without an outcome: see [outcome.Options]
}

// predictedOf returns the content of outcomes for rows with these options.
func predictedOf(rows layout.Options, o outcome.Options) predicted {
	p := predicted{Label: o.Label, Absent: o.Absent}
	switch {
	case len(rows.Targets) > 0:
		p.Task, p.Columns = examples.Numbers, rows.Targets
	case rows.Several():
		p.Task, p.Columns = examples.SeveralLabels, rows.LabelColumns
	}
	return p
}

// Paths returns the paths that are read in an outcome.
func (p predicted) Paths() []string {
	if len(p.Columns) > 0 {
		return p.Columns
	}
	return []string{p.Label}
}

// Rule returns the settings that affect the labels and targets of rows; for a single label, its path and the default.
func (p predicted) Rule() []any {
	if p.Task == examples.OneLabel {
		return []any{p.Label, p.absentLabel()}
	}
	return []any{p.Paths(), p.Absent, p.Task.Noun()}
}

// Read encodes the content of an outcome. cell returns the value at a path.
func (p predicted) Read(cell func(path string) *tabular.Cell) (said string, err error) {
	if len(p.Columns) == 0 {
		label, err := p.label(cell(p.Label))
		if err != nil {
			return "", fmt.Errorf("examples.outcome.label: %s: %w", value.Quote(p.Label), err)
		}
		return encode(label), nil
	}
	cells, key := make([]tabular.Cell, len(p.Columns)), "targets"
	if p.Task == examples.SeveralLabels {
		cells, key = nil, "label_columns"
	}
	for i, path := range p.Columns {
		c := cell(path)
		if p.Task == examples.Numbers {
			var v float64
			if v, err = c.Number(value.Missing{}); err == nil {
				err = layout.CheckTarget(v)
			}
			cells[i] = tabular.Float(v)
		} else {
			var has bool
			if has, err = indicates(c); has {
				cells = append(cells, tabular.Word(path))
			}
		}
		if err != nil {
			return "", fmt.Errorf("examples.%s: %s: %w", key, value.Quote(path), err)
		}
	}
	if p.Task == examples.SeveralLabels {
		return encode(tabular.Items(cells)), nil
	}
	return encode(cells...), nil
}

// label returns the label or the labels of an outcome.
func (p predicted) label(c *tabular.Cell) (label tabular.Cell, err error) {
	if p.Task == examples.SeveralLabels && c.IsList() {
		_, err := c.Texts()
		return *c, err
	}
	text, err := c.Text()
	if err == nil && (c.Null() || text == "" && p.Task == examples.OneLabel) {
		err = errors.New("no label")
	}
	return tabular.Word(text), err
}

// indicates reports whether a row has the label of a column.
func indicates(c *tabular.Cell) (bool, error) {
	text, err := c.Text()
	if err != nil {
		return false, err
	}
	return layout.Indicate(strings.TrimSpace(text))
}

// encode encodes the cells that a row gets.
func encode(cells ...tabular.Cell) string {
	return string(tabular.AppendRows(nil, [][]tabular.Cell{cells}))
}

// Put puts the content of an outcome into the later columns of rows: see [layout.Options.WithLabelLater]. If columns have names, the rows
// have room for it.
func (p predicted) Put(rows [][]tabular.Cell, said string, named bool) {
	cells := tabular.ReadRows([]byte(said))[0]
	for i, row := range rows {
		if named {
			copy(row, cells)
		} else {
			rows[i] = slices.Concat(row, cells)
		}
	}
}

// WhenAbsent returns the content for a row without an outcome; false: it is not an example.
func (p predicted) WhenAbsent() (said string, ok bool) {
	if p.Skips() {
		return "", false
	}
	var cells []tabular.Cell
	switch p.Task {
	case examples.OneLabel:
		return encode(tabular.Word(p.absentLabel())), true
	case examples.SeveralLabels:
		for _, label := range p.Absent {
			cells = append(cells, tabular.Word(label))
		}
		return encode(tabular.Items(cells)), true
	}
	for i := range p.Columns {
		cells = append(cells, tabular.Word(p.Absent[min(i, len(p.Absent)-1)]))
	}
	return encode(cells...), true
}

// check finds invalid values of the keys under `examples` for the content of outcomes. classes are the possible labels; nil: any.
func (p predicted) check(found *option.Problems, classes []string) {
	columns := map[examples.Task]string{examples.Numbers: "targets", examples.SeveralLabels: "label_columns"}[p.Task]
	switch {
	case p.Label != "" && len(p.Columns) > 0:
		found.Add("outcome.label", value.Quote(p.Label), "no label with examples."+columns+", which are the paths in an outcome")
	case p.Label == "" && len(p.Columns) == 0:
		found.Add("outcome.label", "not set", "the path of the label in an outcome, such as kind; or examples.targets, the paths of numbers")
	}
	if p.Skips() {
		return
	}
	isLabel := func(text string) bool {
		return text != "" && text == strings.TrimSpace(text) && (len(classes) == 0 ||
			slices.ContainsFunc(classes, func(class string) bool { return value.Label(class) == value.Label(text) }))
	}
	isTarget := func(text string) bool {
		v, err := value.Number(text)
		return err == nil && layout.CheckTarget(v) == nil
	}
	want, counts, valid := "the label of a row without an outcome", len(p.Absent) == 1, isLabel
	switch p.Task {
	case examples.Numbers:
		want = fmt.Sprintf("one number for all targets of a row without an outcome, such as 0, or one for each of %d", len(p.Columns))
		counts, valid = counts || len(p.Absent) == len(p.Columns), isTarget
	case examples.SeveralLabels:
		want, counts = "the labels of a row without an outcome, such as []", p.Absent != nil
	}
	if p.Task != examples.Numbers && len(classes) > 0 {
		want += ", among examples.classes"
	}
	if !counts || slices.ContainsFunc(p.Absent, func(text string) bool { return !valid(text) }) {
		found.Add("outcome.absent", option.Shown(p.Absent), want+", or skip to leave the row out")
	}
}

// Skips reports whether rows without an outcome are skipped.
func (p predicted) Skips() bool { return len(p.Absent) == 1 && p.Absent[0] == outcome.AbsentSkip }

// absentLabel returns the single label of rows without an outcome.
func (p predicted) absentLabel() string { return strings.Join(p.Absent, ",") }

// Any returns a valid content, for rows with unknown outcomes. classes are the possible labels; nil: any.
func (p predicted) Any(classes []string) string {
	switch p.Task {
	case examples.Numbers:
		return encode(slices.Repeat([]tabular.Cell{tabular.Integer(0)}, len(p.Columns))...)
	case examples.SeveralLabels:
		return encode(tabular.Items(nil))
	}
	if len(classes) > 0 {
		return encode(tabular.Word(classes[0]))
	}
	return encode(tabular.Word(outcome.AbsentSkip))
}
