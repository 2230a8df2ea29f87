package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// assign gives each column its role for training.
func (l *layout) assign() (err error) {
	o := l.options
	for at := range l.cells {
		if len(o.Columns.Use) > 0 || o.Text != "" || l.isRowIndex(at) {
			l.cells[at].role = ignored
		}
	}
	for _, list := range []struct {
		role    role
		columns []string
	}{{feature, o.Columns.Use}, {ignored, o.Columns.Drop}, {category, o.Categorical}} {
		for _, c := range list.columns {
			at, err := l.column(Column(c))
			if err != nil {
				return err
			}
			l.cells[at].role = list.role
		}
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
	if l.label, err = l.column(cmp.Or(o.Label, l.defaultLabel)); err != nil {
		if o.Label == "" {
			err = l.locate(-1, fmt.Errorf("no column %s: set examples.label to one of the columns %s", quote(string(l.defaultLabel)), someNames(l.names)))
		}
		return err
	}
	l.cells[l.label].role = label
	return l.assignRest()
}

// assignRest gives the columns of the weight and of texts their roles.
func (l *layout) assignRest() error {
	if err := l.assignWeight(); err != nil {
		return err
	}
	return l.assignText()
}

// assignWeight gives the column of the weight its role, if there is one.
func (l *layout) assignWeight() (err error) {
	if l.options.Weight == "" {
		return nil
	}
	if l.weight, err = l.column(l.options.Weight); err != nil {
		return err
	}
	switch l.cells[l.weight].role {
	case label:
		return l.locate(l.weight, errors.New("both the label and the weight"))
	case indicator:
		return l.locate(l.weight, errors.New("both a column of a label and the weight"))
	case target:
		return l.locate(l.weight, errors.New("both a target and the weight"))
	}
	l.cells[l.weight].role = weight
	return nil
}

// assignText gives the column of texts its role, if the options give one.
func (l *layout) assignText() (err error) {
	if l.options.Text == "" {
		return nil
	}
	if l.text, err = l.column(l.options.Text); err != nil {
		return err
	}
	switch l.cells[l.text].role {
	case label, weight, target:
		return l.locate(l.text, errors.New("the text is also the label, the weight or a target: set examples.text to another column"))
	}
	l.cells[l.text].role = counted
	return nil
}

// lay gives the features their places, in the order of the columns.
func (l *layout) lay() error {
	var table schemas.Columns
	named := l.names != nil
	for at := range l.cells {
		c, name := &l.cells[at], l.nameOf(at)
		switch {
		case c.role != feature && c.role != category:
			continue
		case c.list:
			c.at, named = l.features, false
			l.features += c.length
			continue
		case name == "":
			return l.locate(at, fmt.Errorf("a column without a name, as the index of a data frame has none: leave it out with examples.columns.drop: [%d], or give it a name", at))
		}
		column := schemas.Column{Name: name}
		if c.role == category {
			if column.Categories = l.options.categories[name]; len(column.Categories) == 0 {
				return l.locate(at, errors.New("its words are not known: they are found in the files under examples.train"))
			}
			c.place(l.features, column)
			named = true
		}
		c.at = l.features
		l.features += column.Features()
		table = append(table, column)
	}
	if named {
		if err := table.Check(); err != nil {
			return l.locate(-1, errors.New("two columns have the same name: rename one, or leave it out with examples.columns.drop and its number"))
		}
		l.table = table
	}
	return l.finish()
}

// missingValues returns the words for a missing value, for a reading: nothing if they are the default.
func (l *layout) missingValues() []string {
	if slices.Equal(l.options.MissingValues, DefaultMissingValues()) {
		return nil
	}
	return l.options.MissingValues
}
