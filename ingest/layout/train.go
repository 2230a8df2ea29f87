package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// given is a key that gives columns a role.
type given struct {
	key     string
	role    Role
	columns []string
}

// isFeatures reports whether the key says which columns become features, and how.
func (g given) isFeatures() bool { return g.role.IsFeature() || g.role == ignored }

func (g given) isServed() bool { return g.role == ServedLabel || g.role == ServedVersion }

// mayShare reports whether two keys may name the same column, the first before the second in the order of the keys.
func (g given) mayShare(next given) bool {
	return g.role == Feature && next.isFeatures() && next.role != ignored || g.isServed() && !next.isServed() && next.role != Counted
}

// given returns the keys that give columns their roles. Without one, the label is in any of the default columns.
func (o Options) given(defaultLabels ...Column) (all []given) {
	one := func(key string, role Role, columns ...Column) {
		g := given{key: key, role: role}
		for _, c := range columns {
			if c != "" {
				g.columns = append(g.columns, string(c))
			}
		}
		all = append(all, g)
	}
	switch {
	case o.Mode == LabelLater:
	case len(o.Targets) > 0:
		all = append(all, given{"targets", Target, o.Targets})
	case len(o.LabelColumns) > 0:
		all = append(all, given{"label_columns", Indicator, o.LabelColumns})
	case o.Label != "":
		one("label", Label, o.Label)
	default:
		one("label", Label, defaultLabels...)
	}
	one("weight", Weight, o.Weight)
	one("served.label", ServedLabel, o.Served.Label)
	one("served.version", ServedVersion, o.Served.Version)
	words := Category
	if o.Mixed() {
		words = Hashed
	}
	all = append(all, given{"columns.use", Feature, o.Columns.Use}, given{"columns.drop", ignored, o.Columns.Drop},
		given{"categorical", words, o.Categorical}, given{"times", Time, o.Times.Columns()})
	one("text", Counted, o.Text)
	return all
}

// NamedColumns returns all columns that the options name.
func (o Options) NamedColumns() (all []Column) {
	for _, g := range o.given() {
		for _, c := range g.columns {
			all = append(all, Column(c))
		}
	}
	return all
}

// Named returns the names of all columns that the options name or that a model needs.
func (o Options) Named() []string {
	names := slices.Clone(o.Needs)
	for _, c := range o.NamedColumns() {
		names = append(names, string(c))
	}
	return names
}

// CheckColumns returns a problem for each key that names a column of another key, or a column that should be a feature and is not. Without
// a label key, the label is in one of the default columns.
func (o Options) CheckColumns(defaultLabels ...Column) (problems option.Problems) {
	all := o.given(defaultLabels...)
	for i, g := range all {
		for _, c := range g.columns {
			for _, before := range all[:i] {
				if slices.Contains(before.columns, c) && !before.mayShare(g) {
					problems.Add(g.key, c, "other columns than those of examples."+before.key)
				}
			}
			if len(o.Columns.Use) > 0 && g.isFeatures() && g.role != ignored && !slices.Contains(o.Columns.Use, c) {
				problems.Add(g.key, c, "columns that become features: list "+value.Quote(c)+" under "+o.Key("columns.use")+" too")
			}
		}
	}
	return problems
}

// Assign assigns roles to the columns for training. Roles other than those of features prevail.
func (l *Layout) Assign() error {
	o := l.Options
	for at := range l.Cells {
		if len(o.Columns.Use) > 0 || o.Text != "" && !o.Mixed() || l.isRowIndex(at) {
			l.Cells[at].Role = ignored
		}
	}
	if o.Mode == LabelLater {
		l.assignLater()
	}
	for _, features := range []bool{true, false} {
		for _, g := range o.given(l.defaultLabel) {
			if g.isFeatures() != features {
				continue
			}
			if err := l.give(g); err != nil {
				return err
			}
		}
	}
	if o.Mode == Unlabelled && l.Label >= 0 {
		l.Ignore(l.Label)
	}
	l.beginMixed()
	return nil
}

// give gives the columns of a key their role. A column has at most one role that is not a feature's.
func (l *Layout) give(g given) error {
	for i, column := range g.columns {
		at, err := l.Column(Column(column))
		if err != nil && g.role == Label && l.Options.Label == "" {
			err = l.Locate(-1, fmt.Errorf("no column %s: set examples.label to one of the columns %s", value.Quote(column), SomeNames(l.Names)))
		}
		if err != nil {
			return err
		}
		c := &l.Cells[at]
		if !g.isFeatures() && !c.Role.IsFeature() && c.Role != ignored {
			return l.Locate(at, fmt.Errorf("a column of examples.%s and of examples.%s: expected different ones", c.key, g.key))
		}
		c.Role, c.At, c.key = g.role, i, g.key
		switch g.role {
		case Label:
			l.Label = at
		case Counted:
			l.Text = at
		case Indicator:
			if l.Indicated[at], err = l.listed(l.NameOf(at)); err != nil {
				return l.Locate(at, err)
			}
		}
	}
	return nil
}

// assignLater assigns the roles of columns that come from other messages.
func (l *Layout) assignLater() {
	first, targets := 0, len(l.Options.Targets)
	if l.Names == nil {
		first = len(l.Cells) - max(1, targets)
	}
	if targets == 0 {
		l.Label = first
		l.Cells[first].Role, l.Cells[first].key = Label, "outcome.label"
	}
	for i := range targets {
		l.Cells[first+i].Role, l.Cells[first+i].At, l.Cells[first+i].key = Target, i, "targets"
	}
}

// Lay assigns the positions of features, in column order.
func (l *Layout) Lay() error {
	var table examples.Columns
	named := l.Names != nil
	for _, at := range l.inOrder() {
		c := &l.Cells[at]
		if !c.Role.IsFeature() || c.Role == Hashed {
			continue
		}
		if c.Kind == tabular.List && !l.IsMixed() {
			c.At, named = l.Features, false
			l.Features += c.Length
			continue
		}
		columns, err := l.columnsOf(at)
		if err != nil {
			if err := l.Refuse(at, err); err != nil {
				return err
			}
			continue
		}
		l.place(c, columns)
		table, named = append(table, columns...), named || c.Role != Feature || c.Offset != 0
	}
	if named || l.IsMixed() && len(table) > 0 {
		if err := table.Check(); err != nil {
			return l.Locate(-1, errors.New("two columns have the same name: rename one, or exclude it with examples.columns.drop and its number"))
		}
		l.Table = table
	}
	return l.Finish()
}

// columnsOf returns the feature columns that a column becomes.
func (l *Layout) columnsOf(at int) (columns examples.Columns, err error) {
	switch c, name := l.Cells[at], l.NameOf(at); {
	case c.Kind == tabular.List:
		return nil, errors.New("a list of numbers with a text or hashed words: expected a column for each number")
	case name == "":
		return nil, fmt.Errorf("an unnamed column, such as the index of a data frame: exclude it with "+
			"examples.columns.drop: [%d], or name it", at)
	case c.Role == Time:
		of, u, anyTime, err := l.timeColumn(at)
		for _, p := range of.Parts {
			column := examples.PartOf(name, p, u)
			column.Offset, column.AnyTime = l.Options.offset(column.Name), anyTime
			columns = append(columns, column)
		}
		return columns, err
	case c.Role == Category:
		words := l.Options.Found.Categories[name]
		if len(words) == 0 {
			err = errors.New("its words are unknown: they come from the files under examples.train")
		}
		return examples.Columns{{Name: name, Categories: words}}, err
	default:
		return examples.Columns{{Name: name, Offset: l.Options.offset(name)}}, nil
	}
}

// place assigns the next feature positions, which have these columns, to a column.
func (l *Layout) place(c *Cell, columns examples.Columns) {
	c.At, c.columns = l.Features, columns
	switch first := columns[0]; {
	case len(first.Categories) > 0:
		c.Role, c.index = Category, make(map[string]int, len(first.Categories))
		for i, word := range first.Categories {
			c.index[word] = c.At + i
		}
	case first.Time != "":
		c.Role = Time
	default:
		c.Role, c.Offset = Feature, first.Offset
	}
	l.Features += columns.Features()
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
