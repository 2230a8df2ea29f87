package parquet

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
)

// Format is Apache Parquet (https://parquet.apache.org/docs/file-format).
func Format() format.Format {
	return format.Tables(format.Format{
		Name:     "parquet",
		Label:    message.Label,
		Meaning:  "columns of numbers and words, or one list of numbers or of index and value",
		Patterns: []string{"*.parquet", "*.pq"},
	}, open)
}

// source reads all columns in parallel, a page of each. So memory holds a page of each column.
type source struct {
	columns []column
	left    int64 // number of remaining rows
	read    int64 // number of rows before the next block
}

// column is a column of a file, or a value within one.
type column struct {
	tabular.Field
	leaf  *leaf // nil: the column is not read
	value *leaf // of sparse rows, whose indices are in leaf; nil: another column
	place int   // of the value in lists; −1: not within lists
}

// open opens a file. Columns that the options name by path may be within others.
func open(c *input.Content, o layout.Options, _ *layout.Features) (t format.Table, err error) {
	f, ok := c.RandomAccess()
	if !ok {
		return t, fmt.Errorf("a Parquet file compressed with %s: expected the plain file, whose columns are compressed", c.Kind)
	}
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	if info.Size() == 0 && info.Mode().IsRegular() {
		return t, input.ErrEmpty
	}
	if !info.Mode().IsRegular() {
		return t, errors.New("a pipe: expected a file, because Parquet stores its schema at the end")
	}
	// The section has its own position. The digest covers the bytes that content reads.
	file, err := parquet.OpenFile(io.NewSectionReader(f, 0, info.Size()), info.Size(), parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	if err != nil {
		return t, err
	}
	s := &source{left: file.NumRows()}
	types := typesOf(file)
	for _, of := range file.Root().Columns() {
		s.columns = append(s.columns, columnOf(file, of, types))
	}
	named := slices.Clone(o.Needs())
	for _, name := range o.NamedColumns() {
		named = append(named, string(name))
	}
	for _, name := range named {
		path := message.Path(name)
		if len(path) < 2 || slices.ContainsFunc(s.columns, func(c column) bool { return c.Name == name }) {
			continue
		}
		if of, place := find(file.Root(), path); of != nil {
			leaf := newLeaf(file, of, types)
			s.columns = append(s.columns, column{tabular.Field{Name: name, Kind: leaf.kind, Type: leaf.name, Advice: leaf.advice}, leaf, nil, place})
		}
	}
	for i := range s.columns {
		if err := s.columns[i].findLength(file); err != nil {
			return t, err
		}
	}
	return format.Table{Source: s, HasNames: true}, nil
}

// find returns the leaf at a path, and the place of its value in a list; −1: it is in none.
func find(at *parquet.Column, path []string) (leaf *parquet.Column, place int) {
	place = -1
	for _, name := range path {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && place < 0 && !at.Leaf() && len(at.Columns()) == 1 && at.Columns()[0].Repeated() {
			at, place = at.Columns()[0], i // of a list
			if !at.Leaf() && len(at.Columns()) == 1 {
				at = at.Columns()[0] // its element
			}
			continue
		}
		if at.Leaf() {
			return nil, -1
		}
		if at = at.Column(name); at == nil {
			return nil, -1
		}
	}
	if !at.Leaf() || at.MaxRepetitionLevel() > min(place+1, 1) {
		return nil, -1
	}
	return at, place
}

// columnOf returns a column of a file.
func columnOf(file *parquet.File, of *parquet.Column, types types) column {
	c := column{Field: tabular.Field{Name: of.Name(), Type: "struct"}, place: -1}
	leaves := leavesOf(nil, of)
	if len(leaves) == 0 {
		return c
	}
	first := newLeaf(file, leaves[0], types)
	depth, repeated := len(leaves[0].Path()), leaves[0].MaxRepetitionLevel()
	switch {
	case len(leaves) == 1:
		c.leaf, c.Type, c.Advice = first, first.name, first.advice
		switch {
		case repeated == 0 && depth == 1:
			c.Kind = first.kind
		case repeated == 1 && depth <= 3 && tabular.IsNumber(first.kind):
			c.Kind = tabular.List
		case repeated == 1 && depth <= 3 && first.kind == tabular.Text:
			c.Kind = tabular.TextList
		}
	case len(leaves) == 2:
		index, value := first, newLeaf(file, leaves[1], types)
		if leaves[0].Name() == "value" && leaves[1].Name() == "index" {
			index, value = value, index
		}
		names := index.column.Name() + " " + value.column.Name()
		if (names == "index value" || names == "key value") && index.kind == tabular.Whole && tabular.IsNumber(value.kind) &&
			!slices.ContainsFunc(leaves, func(l *parquet.Column) bool {
				return l.MaxRepetitionLevel() != 1 || len(l.Path()) < 3 || len(l.Path()) > 4
			}) {
			c.leaf, c.value, c.Kind, c.Type = index, value, tabular.Pairs, "list of index and value"
		}
	}
	return c
}

// leavesOf appends the leaves of a column.
func leavesOf(leaves []*parquet.Column, of *parquet.Column) []*parquet.Column {
	if of.Leaf() {
		return append(leaves, of)
	}
	for _, c := range of.Columns() {
		leaves = leavesOf(leaves, c)
	}
	return leaves
}

// findLength sets the length of lists to that of the first row.
func (c *column) findLength(file *parquet.File) error {
	if c.Kind != tabular.List || file.NumRows() == 0 {
		return nil
	}
	first := *c.leaf
	defer first.close()
	return first.row(func(v *parquet.Value) error {
		if first.isItem(v) {
			c.Length++
		}
		return nil
	})
}

// Fields implements tabular.Source.
func (s *source) Fields() (fields []tabular.Field) {
	for _, c := range s.columns {
		fields = append(fields, c.Field)
	}
	return fields
}

// Read implements tabular.Source.
func (s *source) Read(n int, wanted []bool, b *tabular.Block) error {
	b.Reset(len(s.columns))
	b.Rows = int(min(int64(n), s.left))
	for i := range s.columns {
		c := &s.columns[i]
		if !wanted[i] || c.Kind == tabular.Unread {
			continue
		}
		for row := range b.Rows {
			if err := c.readRow(&b.Columns[i]); err != nil {
				if _, isRow := errors.AsType[rowError](err); isRow {
					err = fmt.Errorf("row %d, counted from 0: %w", s.read+int64(row), err)
				}
				return &tabular.ColumnError{Column: i, Err: err}
			}
		}
	}
	s.left, s.read = s.left-int64(b.Rows), s.read+int64(b.Rows)
	return nil
}

// rowError is an error of a row.
type rowError string

func (e rowError) Error() string { return string(e) }

// readRow appends the values of the next row.
func (c *column) readRow(to *tabular.Column) error {
	l := c.leaf
	if c.Kind == tabular.Pairs {
		return c.readPairs(to)
	}
	if c.Kind != tabular.List && c.Kind != tabular.TextList {
		if c.place < 0 {
			v, err := l.next(true)
			if err == nil {
				l.put(to, v)
			}
			return err
		}
		at, found := 0, false
		err := l.row(func(v *parquet.Value) error {
			if l.isItem(v) && at == c.place {
				l.put(to, v)
				found = true
			}
			at++
			return nil
		})
		if !found {
			l.put(to, new(parquet.Value))
		}
		return err
	}
	null := false
	err := l.row(func(v *parquet.Value) error {
		if l.isItem(v) {
			l.put(to, v)
		}
		null = v.DefinitionLevel() == 0 && l.nullable
		return nil
	})
	to.Ends = append(to.Ends, max(len(to.Numbers), len(to.Texts)))
	to.NoLists = append(to.NoLists, null)
	return err
}

// readPairs appends the entries of the next sparse row.
func (c *column) readPairs(to *tabular.Column) error {
	listed := 1 // definition level of a nullable entry
	if c.leaf.nullable {
		listed++
	}
	for first := true; ; first = false {
		index, err := c.leaf.peek()
		if err != nil {
			return err
		}
		number, err := c.value.peek()
		switch {
		case err != nil:
			return err
		case (index == nil) != (number == nil), index != nil && index.RepetitionLevel() != number.RepetitionLevel():
			return errors.New("the file is damaged: indices and values of other rows")
		case first && (index == nil || index.RepetitionLevel() != 0):
			return errTooFew
		case !first && (index == nil || index.RepetitionLevel() == 0):
			to.Ends = append(to.Ends, len(to.Numbers))
			return nil
		}
		c.leaf.at, c.value.at = c.leaf.at+1, c.value.at+1
		switch definition := index.DefinitionLevel(); {
		case definition == 0 && c.leaf.nullable:
			return rowError("null instead of a sparse row")
		case definition < listed: // an empty list
			continue
		case index.IsNull() || number.IsNull():
			from := 0
			if len(to.Ends) > 0 {
				from = to.Ends[len(to.Ends)-1]
			}
			return rowError(fmt.Sprintf("entry %d is null: expected an index and a value", len(to.Numbers)-from))
		}
		to.Indices, to.Numbers = append(to.Indices, c.leaf.index(index)), append(to.Numbers, c.value.number(number))
	}
}
