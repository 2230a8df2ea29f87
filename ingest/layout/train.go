package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Assign assigns roles to the columns for training.
func (l *Layout) Assign() (err error) {
	o := l.Options
	for at := range l.Cells {
		if len(o.Columns.Use) > 0 || o.Text != "" && !o.Mixed() || l.isRowIndex(at) {
			l.Cells[at].Role = ignored
		}
	}
	for _, list := range []struct {
		role    Role
		columns []string
	}{{Feature, o.Columns.Use}, {ignored, o.Columns.Drop}, {Category, o.Categorical}, {Time, o.Times.Columns()}} {
		for _, c := range list.columns {
			at, err := l.Column(Column(c))
			if err != nil {
				return err
			}
			l.Cells[at].Role = list.role
		}
	}
	if err := l.beginMixed(); err != nil {
		return err
	}
	if o.Mode == LabelLater {
		l.assignLater()
		return l.assignRest()
	}
	if len(o.Targets) > 0 {
		if err := l.assignTargets(); err != nil {
			return err
		}
		return l.assignRest()
	}
	if len(o.LabelColumns) > 0 {
		if err := l.assignLabelColumns(); err != nil {
			return err
		}
		return l.assignWeight()
	}
	if l.Label, err = l.Column(cmp.Or(o.Label, l.defaultLabel)); err != nil {
		if o.Label == "" {
			err = l.Locate(-1, fmt.Errorf("no column %s: set examples.label to one of the columns %s", value.Quote(string(l.defaultLabel)),
				SomeNames(l.Names)))
		}
		return err
	}
	l.Cells[l.Label].Role = Label
	if o.Mode == Unlabelled {
		l.Cells[l.Label].Role, l.Label = ignored, -1
	}
	return l.assignRest()
}

// assignLater assigns the roles of columns that come from other messages.
func (l *Layout) assignLater() {
	first, targets := 0, len(l.Options.Targets)
	if l.Names == nil {
		first = len(l.Cells) - max(1, targets)
	}
	if targets == 0 {
		l.Label = first
		l.Cells[first].Role = Label
	}
	for i := range targets {
		l.Cells[first+i].Role, l.Cells[first+i].At = Target, i
	}
}

// assignRest assigns the roles of weight and text columns.
func (l *Layout) assignRest() error {
	if err := l.assignWeight(); err != nil {
		return err
	}
	if err := l.assignServed(); err != nil {
		return err
	}
	return l.assignText()
}

// assignServed assigns the roles of the served columns, if there are any.
func (l *Layout) assignServed() error {
	for _, c := range []struct {
		column Column
		role   Role
	}{{l.Options.Served.Label, ServedLabel}, {l.Options.Served.Version, ServedVersion}} {
		if c.column == "" {
			continue
		}
		at, err := l.Column(c.column)
		if err != nil {
			return err
		}
		if r := l.Cells[at].Role; r == Label || r == Weight || r == ServedLabel {
			return l.Locate(at, errors.New("examples.served needs separate columns"))
		}
		l.Cells[at].Role = c.role
	}
	return nil
}

// assignWeight assigns the role of the weight column, if there is one.
func (l *Layout) assignWeight() (err error) {
	if l.Options.Weight == "" {
		return nil
	}
	if l.Weight, err = l.Column(l.Options.Weight); err != nil {
		return err
	}
	switch l.Cells[l.Weight].Role {
	case Label:
		return l.Locate(l.Weight, errors.New("both the label and the weight"))
	case Indicator:
		return l.Locate(l.Weight, errors.New("both a column of a label and the weight"))
	case Target:
		return l.Locate(l.Weight, errors.New("both a target and the weight"))
	}
	l.Cells[l.Weight].Role = Weight
	return nil
}

// assignText assigns the role of the text column, if the options name one.
func (l *Layout) assignText() (err error) {
	if l.Options.Text == "" {
		return nil
	}
	if l.Text, err = l.Column(l.Options.Text); err != nil {
		return err
	}
	switch l.Cells[l.Text].Role {
	case Label, Weight, Target:
		return l.Locate(l.Text, errors.New("the text is also the label, the weight or a target: set examples.text to another column"))
	}
	l.Cells[l.Text].Role = Counted
	return nil
}

// Lay assigns the positions of features, in column order.
func (l *Layout) Lay() error {
	var table examples.Columns
	named := l.Names != nil
	for _, at := range l.inOrder() {
		c, name := &l.Cells[at], l.NameOf(at)
		switch {
		case !c.Role.IsFeature() || c.Role == Hashed:
			continue
		case c.Kind == tabular.List && l.IsMixed():
			if err := l.Refuse(at, errors.New("a list of numbers with a text or hashed words: expected a column for each number")); err != nil {
				return err
			}
			continue
		case c.Kind == tabular.List:
			c.At, named = l.Features, false
			l.Features += c.Length
			continue
		case name == "":
			if err := l.Refuse(at, fmt.Errorf("an unnamed column, such as the index of a data frame: exclude it with "+
				"examples.columns.drop: [%d], or name it", at)); err != nil {
				return err
			}
			continue
		}
		if c.Role == Time {
			columns, err := l.timesOf(at, name)
			if err != nil {
				if err := l.Collect(at, err); err != nil {
					return err
				}
				continue
			}
			for _, column := range columns {
				c.placeTime(l.Features, column)
				l.Features++
			}
			table, named = append(table, columns...), true
			continue
		}
		column := examples.Column{Name: name}
		if c.Role == Feature && l.Options.offset(name) != 0 {
			c.Offset = l.Options.offset(name)
			column.Offset, named = c.Offset, true
		}
		if c.Role == Category {
			if column.Categories = l.Options.Found.Categories[name]; len(column.Categories) == 0 {
				if err := l.Refuse(at, errors.New("its words are unknown: they come from the files under examples.train")); err != nil {
					return err
				}
				continue
			}
			c.place(l.Features, column)
			named = true
		}
		c.At = l.Features
		l.Features += column.Features()
		table = append(table, column)
	}
	if named || l.IsMixed() && len(table) > 0 {
		if err := table.Check(); err != nil {
			return l.Locate(-1, errors.New("two columns have the same name: rename one, or exclude it with examples.columns.drop and its number"))
		}
		l.Table = table
	}
	return l.Finish()
}

// MissingValues returns the missing-value texts for a Reading: nil if they are the default.
func (l *Layout) MissingValues() []string {
	if slices.Equal(l.Options.MissingValues, DefaultMissingValues()) {
		return nil
	}
	return l.Options.MissingValues
}

// findSparse assigns the role of the column of sparse rows, if there is one. There are no other features then.
func (l *Layout) findSparse() error {
	features := 0
	for i, c := range l.Cells {
		if !c.Role.IsFeature() {
			continue
		}
		if features++; c.Role == Feature && c.Kind == tabular.Pairs {
			l.Sparse = i
		}
	}
	switch {
	case l.Sparse < 0:
		return nil
	case features > 1:
		return l.Refuse(l.Sparse, fmt.Errorf("sparse rows and %d other columns: exclude those with examples.columns.drop, or "+
			"list only this one under examples.columns.use", features-1))
	}
	l.Cells[l.Sparse].Role = Entries
	return nil
}

// CheckTypes returns an error for a column whose type does not suit its role.
func (l *Layout) CheckTypes() error {
	if l.Options.Mode != Predicting {
		if err := l.findSparse(); err != nil {
			return err
		}
	}
	lists, features := -1, 0
	for i, c := range l.Cells {
		if want := l.wantType(c); want != "" {
			if err := l.Refuse(i, fmt.Errorf(want, c.Type)); err != nil {
				return err
			}
			continue
		}
		if c.Role.IsFeature() {
			features++
		}
		if c.Role == Feature && c.Kind == tabular.List {
			lists = i
		}
	}
	if lists >= 0 && features > 1 {
		return l.Refuse(lists, fmt.Errorf("a list of features and %d other columns: "+
			"expected one list of all features, or a column for each", features-1))
	}
	return nil
}

// wantType returns what is wrong with the type of a column for its role, as a format for the type; "": nothing.
func (l *Layout) wantType(c Cell) string {
	isNumber := tabular.IsNumber(c.Kind) || c.Digits
	isText := c.Kind == tabular.Text || isNumber
	isList := c.Kind == tabular.List || c.Kind == tabular.TextList
	ok, want, advice := true, "", c.Advice
	switch c.Role {
	case Label:
		ok, want = isText || isList && l.Options.Several(), "labels of type %s: expected text, numbers or booleans"
	case Indicator:
		ok, want = isText, "a column of a label of type %s: expected booleans, or numbers that are 0 or 1"
	case Target:
		ok, want = isNumber, "numbers to predict of type %s: expected a number in each row"
	case Category, Hashed:
		ok, want = isText, "words of type %s: expected text, numbers or booleans"
	case Time:
		ok, want = isText || c.Kind == tabular.Moment, "times of type %s: expected dates, times, text or numbers"
	case Counted:
		ok, want = c.Kind == tabular.Text || c.Kind == tabular.Any || c.Kind == tabular.TextList, "texts of type %s: expected text"
	case Weight:
		ok, want = isNumber, "weights of type %s: expected numbers"
	case Feature:
		ok, want = isNumber || c.Kind == tabular.List, "type %s: features are numbers, booleans, or one list of numbers"
		advice = l.otherwise(c)
	}
	switch {
	case ok:
		return ""
	case advice == "":
		return want
	}
	return want + ": " + strings.ReplaceAll(advice, "%", "%%")
}

// otherwise returns the advice for a column of a kind that can't be a feature.
func (l *Layout) otherwise(c Cell) string {
	const words = "examples.categorical accepts columns of words, examples.columns.drop excludes a column"
	switch predicts := l.Options.Mode == Predicting; {
	case predicts && c.Kind == tabular.Text:
		return ""
	case predicts:
		return c.Advice
	case c.Kind == tabular.Text && c.Advice != "":
		return words + ", " + c.Advice
	case c.Kind == tabular.Text:
		return words
	}
	return "exclude the column with examples.columns.drop, or " + cmp.Or(c.Advice, "convert it to a number")
}
