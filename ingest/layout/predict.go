package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Features describes the rows that a model needs.
type Features struct {
	Width   int              // number of features
	Columns examples.Columns // of the training table; nil: only the order of the features is known
	Image   examples.Image   // image shape of the rows; zero: not images, or unknown
	Labels  []string         // classes of the model; none: unknown
	Sparse  bool             // rows are sparse; columns from Width on are ignored
	Truth   bool             // the labels or targets of the rows are read too
}

// LayFeatures assigns the columns of a file with rows to predict to the features of a model. header reports whether the first row has the
// names of the columns although no option says so.
func (l *Layout) LayFeatures(want Features, header bool) error {
	// as in CSV: such a row is also valid for a sparse model
	digits := !slices.ContainsFunc(l.Cells, func(c Cell) bool { return !c.Digits })
	switch o := l.Options; {
	case !want.Sparse && (o.Text != "" || o.Mixed()):
		return l.Locate(-1, fmt.Errorf("texts: the model was trained on rows of %d features", want.Width))
	case want.Sparse && o.Mixed():
		return l.layByName(want, "")
	case want.Sparse && (o.Text != "" || !digits):
		return l.laySparse(header || l.Names == nil)
	case want.Columns != nil && l.Names != nil && !l.hasList(want.Width):
		otherwise := ""
		if header && o.Header == nil {
			otherwise = " (if the first row is an example: --header=false)"
		}
		return l.layByName(want, otherwise)
	}
	return l.layByPlace(want)
}

// LayTruth assigns the role of the label column, or of the target columns, in addition to the features. An invalid target is NaN.
func (l *Layout) LayTruth(want Features) error {
	l.NoLabels = value.MissingOf(l.Options.MissingValues).Without(want.Labels)
	for _, g := range l.Options.given(l.defaultLabel) {
		if g.role != Label && g.role != Target {
			continue
		}
		for _, c := range g.columns {
			if at, err := l.Column(Column(c)); err != nil || l.Cells[at].Role != ignored {
				return l.Locate(-1, fmt.Errorf("no column %s with the labels: set --label to one of the columns %s", value.Quote(c),
					SomeNames(l.Names)))
			}
		}
		if err := l.give(g); err != nil {
			return err
		}
	}
	return nil
}

// laySparse finds the column of texts or of sparse rows. single reports whether a file with one column has the texts there, regardless
// of its name.
func (l *Layout) laySparse(single bool) error {
	l.ignoreAll()
	if l.Options.Text != "" {
		if len(l.Cells) == 1 && single {
			l.Text, l.Cells[0].Role = 0, Counted
			return nil
		}
		return l.give(given{"text", Counted, []string{string(l.Options.Text)}})
	}
	for i, c := range l.Cells {
		switch {
		case c.Kind != tabular.Pairs:
		case l.Sparse >= 0:
			return l.Locate(i, errors.New("another column of sparse rows: expected one"))
		default:
			l.Sparse = i
		}
	}
	if l.Sparse < 0 {
		return l.Locate(-1, errors.New("no column of sparse rows, which the model was trained on: expected lists of index and value, or maps"))
	}
	l.Cells[l.Sparse].Role = Entries
	return nil
}

// layByName assigns the roles and positions of the columns that a model needs by name, or by number in a file without names. Other
// columns are not read. otherwise is the advice if the file seems to lack a column.
func (l *Layout) layByName(want Features, otherwise string) error {
	l.ignoreAll()
	var missing []string
	for _, columns := range bySource(want.Columns) {
		name := columns[0].Source()
		at, err := l.find(name)
		if l.Names == nil {
			at, err = l.Column(Column(name))
		}
		switch {
		case err != nil:
			return err
		case at < 0:
			missing = append(missing, name)
		case l.Cells[at].Kind == tabular.List:
			return l.Locate(at, errors.New("a list of numbers: the model has this column with one number in each row"))
		default:
			l.place(&l.Cells[at], columns)
		}
	}
	if len(missing) > 0 {
		return l.Locate(-1, fmt.Errorf("missing columns that the model needs: %s%s", SomeNames(missing), otherwise))
	}
	if l.Options.Mixed() {
		l.Table = want.Columns
		l.beginMixed()
		for _, g := range l.Options.given() {
			if g.role != Hashed && g.role != Counted {
				continue
			}
			if err := l.give(g); err != nil {
				return err
			}
		}
	}
	return l.Finish()
}

// layByPlace assigns the positions of columns in file order. The file has the training columns, or only the features. A
// list may have all features, regardless of their names in training.
func (l *Layout) layByPlace(want Features) error {
	columns := want.Columns
	if columns == nil || l.hasList(want.Width) {
		columns = make(examples.Columns, want.Width)
	}
	sources := bySource(columns)
	used, err := l.usedPlaces(len(sources))
	if err != nil {
		return err
	}
	l.ignoreAll()
	for _, at := range used {
		c := &l.Cells[at]
		if c.Kind == tabular.List {
			c.Role, c.At = Feature, l.Features
			if offsets := want.offsets(); len(offsets) == c.Length {
				c.Offsets = offsets
			}
			l.Features += c.Length
			sources = sources[c.Length:]
			continue
		}
		l.place(c, sources[0])
		sources = sources[1:]
	}
	return l.Finish()
}

// hasList reports whether a column has lists of this length.
func (l *Layout) hasList(length int) bool {
	return slices.ContainsFunc(l.Cells, func(c Cell) bool { return c.Kind == tabular.List && c.Length == length })
}

// offsets returns the offset of each feature; nil without any.
func (want Features) offsets() (offsets []float64) {
	if !want.Columns.HasOffsets() {
		return nil
	}
	for _, column := range want.Columns {
		offsets = append(offsets, column.Offset)
		offsets = append(offsets, make([]float64, column.Features()-1)...)
	}
	return offsets
}

// ignoreAll excludes all columns from reading.
func (l *Layout) ignoreAll() {
	for at := range l.Cells {
		l.Cells[at].Role = ignored
	}
}

// usedPlaces returns the feature columns, which must give n features; a list counts as its length. A file may lack the
// label, the weight and the columns dropped in training. So those that the options give by name are ignored if the file
// has them. Those given by number, and unused ones, are ignored only if the number of columns does not match otherwise:
// without the label all later numbers would shift.
func (l *Layout) usedPlaces(n int) ([]int, error) {
	o := l.Options
	var used []int
	for at := range l.Cells {
		if !l.isRowIndex(at) {
			used = append(used, at)
		}
	}
	fits := func() bool {
		count := 0
		for _, at := range used {
			if c := l.Cells[at]; c.Kind == tabular.List {
				count += c.Length
			} else {
				count++
			}
		}
		return count == n
	}
	if len(o.Columns.Use) > 0 && !fits() {
		used = nil
		for _, c := range o.Columns.Use {
			at, err := l.Column(Column(c))
			if err != nil {
				return nil, err
			}
			used = append(used, at)
		}
		slices.Sort(used)
		used = slices.Compact(used)
	}
	var leave []Column
	for _, g := range o.given(l.defaultLabel) {
		for _, c := range g.columns {
			if g.role == ignored || !g.isFeatures() && !g.isServed() && g.role != Counted {
				leave = append(leave, Column(c))
			}
		}
	}
	for _, named := range []bool{true, false} {
		if !named && fits() {
			break
		}
		for _, c := range leave {
			if at, err := l.Column(c); err == nil && c.IsName() == named {
				used = slices.DeleteFunc(used, func(other int) bool { return other == at })
			}
		}
	}
	if !fits() {
		return nil, l.Locate(-1, fmt.Errorf("%d columns: expected %d features, with or without the label", len(l.Cells), n))
	}
	return used, nil
}

// Request is the layout of rows to predict that come from no file, and say which of the model's columns they have.
type Request struct {
	*Layout
	columns int            // number of columns of the model
	byName  map[string]int // column by name
}

// NewRequest returns the layout of rows for a model. o is the result of [TrainedAs]. The columns of the model are those of the
// rows, by name or number. If all are numbers, the rows have a single column instead: a list of all. Rows of a sparse model
// without columns have a column of sparse rows. A request of a dense model is safe for concurrent use.
func NewRequest(o Options, want Features) (*Request, error) {
	o = o.ToPredictWith(want)
	names := o.Needs
	if want.Columns == nil && !want.Sparse {
		names = make([]string, want.Width)
	}
	r := &Request{columns: len(names), byName: map[string]int{}}
	fields := make([]tabular.Field, max(1, len(names)))
	for i, name := range names {
		if fields[i].Name = name; name != "" {
			r.byName[name] = i
		}
	}
	if want.Sparse && !o.Mixed() && o.Text == "" {
		fields[0].Kind = tabular.Pairs
	}
	l := New(o, "", fields, len(r.byName) > 0, func(_ int, err error) error { return err })
	r.Layout, l.ByName = &l, true
	err := l.LayFeatures(want, false)
	if err == nil && !want.Sparse && l.Features != want.Width {
		err = fmt.Errorf("the columns have %d features, the model has %d", l.Features, want.Width)
	}
	if err != nil {
		return nil, err
	}
	others := slices.ContainsFunc(l.Cells, func(c Cell) bool { return c.Role != Feature })
	if !want.Sparse && len(names) == want.Width && !l.missing.HasNumbers() && !others {
		list := Cell{Role: Feature, Field: tabular.Field{Kind: tabular.List, Length: want.Width}, Offsets: want.offsets()}
		r.Cells = []Cell{list}
	}
	return r, nil
}

// Columns returns the number of columns of the model.
func (r *Request) Columns() int { return r.columns }

// Find returns the number of the column with a name.
func (r *Request) Find(name string) (column int, ok bool) {
	column, ok = r.byName[name]
	return column, ok
}

// IsList reports whether the rows have all numbers as a list.
func (r *Request) IsList() bool { return len(r.Cells) > 0 && r.Cells[0].Kind == tabular.List }

// IsNumber reports whether a column of the model is numbers.
func (r *Request) IsNumber(column int) bool { return r.IsList() || r.Cells[column].Role == Feature }

// Number returns the number of a feature, NaN for a missing one.
func (r *Request) Number(cell tabular.Cell) (float64, error) {
	v, err := cell.Number(r.missing)
	if err == nil {
		err = r.checkNumber(v)
	}
	return v, r.advise(-1, err)
}

// Lacks returns an error with the missing columns of a row. has reports which columns the row has.
func (r *Request) Lacks(has []bool) error {
	var missing []string
	for column, name := range r.Names {
		if !has[column] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("missing columns that the model needs: " + SomeNames(missing))
}
