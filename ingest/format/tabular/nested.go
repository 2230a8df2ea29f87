package tabular

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/value"
)

// Nested are the parts of a value as its format has them: the members of an object, the entries of a map, or the items of a list.
type Nested interface {
	// Parts calls put for each part that at has a step for: members by name, entries by key, items by index. It returns the first error of
	// put, or that of an invalid value.
	Parts(at *Step, put func(at *Step, part Cell) error) error
	// Items calls put for each item of a list, until an error.
	Items(put func(item Cell) error) error
	// Names returns the names of the members, or the paths of the values in them.
	Names() []string
}

// packed are the items of a list in memory, which need no cells: its numbers, unless ok is false, or the entries of a sparse row.
type packed interface {
	Len() int
	AppendNumbers(to []float64) (numbers []float64, ok bool)
	Pairs(put func(index int64, v float64) error) error
}

// numbers are the items of a list of numbers, or the entries of a sparse row.
type numbers struct {
	indices []int64 // nil: not sparse
	values  []float64
}

func (n numbers) Parts(*Step, func(*Step, Cell) error) error { return nil }
func (n numbers) Names() []string                            { return nil }
func (n numbers) Len() int                                   { return len(n.values) }
func (n numbers) AppendNumbers(to []float64) (all []float64, ok bool) {
	return append(to, n.values...), true
}

func (n numbers) Pairs(put func(index int64, v float64) error) (err error) {
	for i := 0; i < len(n.indices) && err == nil; i++ {
		err = put(n.indices[i], n.values[i])
	}
	return err
}

func (n numbers) Items(put func(Cell) error) (err error) {
	for i := 0; i < len(n.values) && err == nil; i++ {
		err = put(Float(n.values[i]))
	}
	return err
}

// items is a list of values.
type items []Cell

func (l items) Parts(*Step, func(*Step, Cell) error) error { return nil }
func (l items) Names() []string                            { return nil }

func (l items) Items(put func(Cell) error) error {
	for _, item := range l {
		if err := put(item); err != nil {
			return err
		}
	}
	return nil
}

// jsonValue is an object or an array that CheckJSON has accepted. A duplicate member is an error.
type jsonValue value.Cell

func (n jsonValue) Parts(at *Step, put func(*Step, Cell) error) error {
	if n[0] == '{' {
		return value.Cell(n).Each(func(name []byte, member value.Cell) error {
			if next := at.Named(name); next != nil {
				return put(next, JSON(member))
			}
			return nil
		})
	}
	last := -1
	for _, next := range at.Below {
		last = max(last, next.Index)
	}
	var first []value.Cell
	for item := range value.Cell(n).All() {
		if len(first) > last {
			break
		}
		first = append(first, item)
	}
	return Parts(at, func(next *Step) (part Cell, ok bool) {
		if ok = next.Index >= 0 && next.Index < len(first); ok {
			part = JSON(first[next.Index])
		}
		return part, ok
	}, put)
}

func (n jsonValue) Items(put func(Cell) error) error {
	for item := range value.Cell(n).All() {
		if err := put(JSON(item)); err != nil {
			return err
		}
	}
	return nil
}

// Names returns the paths of the values, or of those in the last item of an array.
func (n jsonValue) Names() []string {
	names := appendPaths(nil, "", value.Cell(n))
	if list := value.Cell(n).Items(); len(list) > 0 {
		names = appendPaths(nil, "", list[len(list)-1])
	}
	slices.Sort(names)
	return names
}

// maxPaths is the maximum number of paths of an object in errors.
const maxPaths = 1000

// appendPaths appends the paths of the values in an object that are neither objects nor lists of objects.
func appendPaths(paths []string, within string, object value.Cell) []string {
	if object.Null() || object[0] != '{' {
		return paths
	}
	_ = object.Each(func(name []byte, cell value.Cell) error {
		path := within + string(name)
		if list := cell.Items(); len(list) > 0 {
			cell, path = list[0], path+".0"
		}
		switch {
		case len(paths) >= maxPaths:
		case !cell.Null() && cell[0] == '{' && string(cell) != "{}":
			paths = appendPaths(paths, path+".", cell)
		default:
			paths = append(paths, within+string(name))
		}
		return nil
	})
	return paths
}

// Path splits a path into member names and list indices, from 0, as in items.0.price.
func Path(column string) []string { return strings.Split(column, ".") }

// Step is a step of column paths, which form a tree.
type Step struct {
	Name   string
	Index  int // of a list item; −1: the name is not an index
	Below  []*Step
	column int // −1: none
	whole  bool
	named  map[string]*Step
	number int // in Below of its parent
	next   int // number of the step below that probably comes next
	walk   int // the last walk that has found it
}

// Parts calls put for the steps below n for which part returns a part.
func Parts(n *Step, part func(next *Step) (Cell, bool), put func(at *Step, part Cell) error) error {
	for _, next := range n.Below {
		if v, ok := part(next); ok {
			if err := put(next, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// Named returns the step below n with a name; nil: none.
func (n *Step) Named(name []byte) *Step {
	if n.next < len(n.Below) && n.Below[n.next].Name == string(name) { // avoids a map lookup
		n.next++
		return n.Below[n.next-1]
	}
	next := n.named[string(name)]
	if next != nil {
		n.next = next.number + 1
	}
	return next
}

// step returns the step below n with a name, which it adds if necessary.
func (n *Step) step(name string) *Step {
	if next := n.named[name]; next != nil {
		return next
	}
	next := &Step{Name: name, Index: -1, column: -1, number: len(n.Below)}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 {
		next.Index = i
	}
	if n.named == nil {
		n.named = map[string]*Step{}
	}
	n.named[name], n.Below = next, append(n.Below, next)
	return next
}

// Paths finds columns in values: members, and nested values by path. A member whose name equals a path takes precedence.
// It is not safe for concurrent use.
type Paths struct {
	root  Step
	walk  int        // number of values
	found []presence // by column, in the last value
	put   func(column int, part Cell) error
	keep  func(at *Step, part Cell) error
	// Null means that the last object has null in place of a value that contains a column.
	Null bool
}

// presence is how a column was found.
type presence uint8

const (
	absent presence = iota
	byPath
	byName
)

// NewPaths returns the Paths with these names.
func NewPaths(names []string) *Paths {
	c := &Paths{root: Step{column: -1}, found: make([]presence, len(names))}
	for i, name := range names {
		at := &c.root
		for _, step := range Path(name) {
			at = at.step(step)
		}
		at.column, at.whole = i, at == c.root.named[name]
		whole := c.root.step(name)
		whole.column, whole.whole = i, true
	}
	c.keep = c.find
	return c
}

// Walk calls put with the value of each column of an object or a list. Another value has none. For a column that is found by path and by
// name, put may be called twice: the last value, by name, counts. A member that comes twice is an error.
func (c *Paths) Walk(object Cell, put func(column int, part Cell) error) error {
	c.walk++
	c.Null = false
	clear(c.found)
	c.put = put
	err := error(nil)
	if object.of != nil {
		err = object.of.Parts(&c.root, c.keep)
	}
	c.put = nil // it may hold the message
	return err
}

// Read copies the columns of an object to cells. It does not modify the cells of columns that the object lacks. The cells do not refer to
// the memory of the object, unless it is JSON.
func (c *Paths) Read(object Cell, cells []Cell) error {
	return c.Walk(object, func(column int, part Cell) error {
		cells[column] = part.own()
		return nil
	})
}

// own returns a value with its own copy of items. Members, which are not column values, are omitted.
func (c Cell) own() Cell {
	if c.of == nil {
		return c
	}
	return c.copied()
}

// copied is own for a value with parts.
func (c Cell) copied() Cell {
	if _, isJSON := c.of.(jsonValue); isJSON {
		return c
	}
	if c.kind != cellList {
		return c.With(nil)
	}
	list := []Cell{}
	_ = c.Each(func(item Cell) error {
		list = append(list, item.own())
		return nil
	})
	if len(list) == 0 || list[0].kind == cellObject {
		if row, err := c.sparse(); err == nil {
			return ListOf(row)
		}
	}
	return Items(list)
}

// sparse returns the entries of a sparse row: a list of objects with an index and a value.
func (c Cell) sparse() (row numbers, err error) {
	paths := NewPaths([]string{"index", "value"})
	err = c.Each(func(item Cell) error {
		var pair [2]Cell
		err := paths.Read(item, pair[:])
		index, notWhole := pair[0].Whole()
		number, notNumber := pair[1].Number(value.Missing{})
		row.indices, row.values = append(row.indices, index), append(row.values, number)
		return cmp.Or(err, notWhole, notNumber)
	})
	return row, err
}

// Has reports whether the last object has a column.
func (c *Paths) Has(column int) bool { return c.found[column] != absent }

// find calls put with a part that is a column, and finds the columns within it.
func (c *Paths) find(at *Step, part Cell) error {
	if at.walk == c.walk {
		return fmt.Errorf("duplicate member %s", value.Quote(at.Name))
	}
	at.walk = c.walk
	how := byPath
	if at.whole {
		how = byName
	}
	if at.column >= 0 && c.found[at.column] < how {
		c.found[at.column] = how
		if err := c.put(at.column, part); err != nil {
			return err
		}
	}
	if len(at.Below) == 0 {
		return nil
	}
	if c.Null = c.Null || part.Null(); part.of == nil {
		return nil
	}
	return part.of.Parts(at, c.keep)
}
