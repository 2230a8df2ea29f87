package layout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Learnt describes the rows on which a chain of versions was trained, or is trained first. Rows of later files have the same layout:
// columns with names have the same positions, regardless of their order in a file, and the same words and offsets.
type Learnt struct {
	Version int              // version trained on them; 0: the first version will be trained on the rows on the topic
	Sparse  bool             // the rows are sparse
	Width   int              // number of features of dense rows
	Columns examples.Columns // of the features; nil: unknown
	Rows    int              // number of rows examined
	Lacking map[string]int   // by column: number of these without a value
	Topic   string           // topic whose messages have the rows that follow; "": they are in files
	File    string           // file of the rows, which is read together with those that follow; "": they were read before
	First   *int64           // index of the first column of sparse rows that were converted to dense ones; nil: not converted, or unknown
}

// With returns the description of the same rows together with earlier ones. Either may be nil.
func (l *Learnt) With(earlier *Learnt) *Learnt {
	if l == nil {
		return earlier
	}
	if earlier != nil && l.Lacking != nil {
		l.Rows += earlier.Rows
		for name, lacking := range earlier.Lacking {
			l.Lacking[name] += lacking
		}
	}
	return l
}

// After returns the options for rows that follow those of a chain.
func (o Options) After(l *Learnt) Options {
	o.Found.Learnt = l
	if l == nil || l.Columns == nil {
		return o
	}
	offsets, words, stamps := Offsets{}, map[string][]string{}, map[string]*value.Stamps{}
	maps.Copy(words, o.Found.Categories)
	maps.Copy(stamps, o.Found.Stamps)
	for _, c := range l.Columns {
		if c.Unit != "" {
			stamps[c.Source()] = value.StampsIn(c.Unit, c.AnyTime)
		}
		if len(c.Categories) > 0 {
			words[c.Name] = c.Categories
		} else {
			offsets[c.Name] = c.Offset
		}
	}
	o.Found.Categories, o.Found.Offsets, o.Found.Stamps = words, offsets, stamps
	return o
}

// rows names the rows in errors.
func (l *Learnt) rows() string {
	switch {
	case l.File != "":
		return l.File
	case l.Version == 0 && l.Topic != "":
		return "the rows of " + l.Topic + " that were ingested before"
	case l.Version == 0:
		return "the rows that were ingested before"
	}
	return fmt.Sprintf("the rows that version %d of the chain has learnt", l.Version)
}

// advice returns the advice if rows can't follow those of the chain.
func (l *Learnt) advice() string {
	const anotherName = "give the pipeline another name to start a chain with these rows"
	switch {
	case l.File != "":
		return "all files need the same columns in the same order: list those that all have under examples.columns.use"
	case l.Topic != "":
		return "restore the columns under examples, or " + anotherName
	case l.Version == 0:
		return anotherName + ", or exclude those before with `stagewise sources remove`"
	}
	return anotherName
}

// source names the source of the rows that follow in errors.
func (l *Learnt) source() string {
	if l.Topic != "" {
		return "examples.columns.use"
	}
	return "the file"
}

// Check returns an error if rows of that width and with those columns can't follow those of a chain. Rows are sparse if
// the width is 0.
func (l *Learnt) Check(width int, columns examples.Columns) error {
	if l == nil {
		return nil
	}
	but := func(what string) error {
		return fmt.Errorf("%s, unlike %s: %s", what, l.rows(), l.advice())
	}
	switch sparse := width == 0; {
	case sparse && !l.Sparse:
		return but("sparse rows")
	case !sparse && l.Sparse:
		return but("dense rows")
	}
	if columns != nil && l.Columns != nil {
		lacks, more := columns.Lacking(l.Columns), l.Columns.Lacking(columns)
		switch {
		case len(lacks) > 0 && len(more) > 0:
			return but(fmt.Sprintf("%s lacks %s and has %s", l.source(), columnsNamed(lacks), SomeNames(more)))
		case len(lacks) > 0:
			return but(l.source() + " lacks " + columnsNamed(lacks))
		case len(more) > 0 && l.Topic+l.File != "":
			return but(l.source() + " also has " + columnsNamed(more))
		case len(more) > 0:
			return fmt.Errorf("%w, or list the columns to use under examples.columns.use", but("the file also has "+columnsNamed(more)))
		}
		if difference := columns.Difference(l.Columns); difference != "" {
			return but(difference)
		}
	}
	if !l.Sparse && width != l.Width {
		return but(fmt.Sprintf("%d features, not %d", width, l.Width))
	}
	return nil
}

// columnsNamed formats column names for errors.
func columnsNamed(names []string) string {
	if len(names) == 1 {
		return "the column " + SomeNames(names)
	}
	return "the columns " + SomeNames(names)
}

// inOrder returns the column numbers in the order of feature positions: file order, or for columns with names the order of
// the chain's columns, with additional ones at the end.
func (l *Layout) inOrder() []int {
	order := make([]int, len(l.Cells))
	for at := range order {
		order[at] = at
	}
	if l.Names == nil || l.Options.Found.Learnt == nil {
		return order
	}
	places := map[string]int{}
	for i, c := range slices.Backward(l.Options.Found.Learnt.Columns) {
		places[c.Source()] = i
	}
	place := func(at int) int {
		if i, ok := places[l.Names[at]]; ok {
			return i
		}
		return len(l.Options.Found.Learnt.Columns)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(place(a), place(b)) })
	return order
}

// placed returns the numbers of the feature columns, in the order of their positions; nil if that is file order.
func (l *Layout) placed() []int {
	var order []int
	for at, c := range l.Cells {
		if c.Role.IsFeature() && c.Role != Hashed {
			order = append(order, at)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.Cells[a].At, l.Cells[b].At) })
	if slices.IsSorted(order) {
		return nil
	}
	return order
}
