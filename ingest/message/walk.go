package message

import (
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// Nested is a decoded value of type V, which may have parts: the members of an object, the entries of a map, or the items
// of a list.
type Nested[V any] interface {
	// Kind returns what the value is.
	Kind() Kind
	// Parts calls put for each part of an object or a list that at has a step for: members by name, entries by key, items by
	// index. It returns the first error of put, or that of an invalid value.
	Parts(at *Step, put func(at *Step, part V) error) error
	// Items calls put for each item of a list, until an error.
	Items(put func(item V) error) error
	// Cell returns the value as that of a column.
	Cell() tabular.Cell
}

// Kind is the kind of a [Nested] value.
type Kind uint8

const (
	Scalar Kind = iota // without parts
	Null               // no value
	Object             // with members or entries
	List               // with items
)

// Step is a step of column paths, which form a tree.
type Step struct {
	Name   string
	Index  int // of a list item; −1: the name is not an index
	Below  []*Step
	column int // −1: none
	whole  bool
	named  map[string]*Step
}

// Named returns the step below n with a name; nil: none.
func (n *Step) Named(name []byte) *Step { return n.named[string(name)] }

// step returns the step below n with a name, which it adds if necessary.
func (n *Step) step(name string) *Step {
	if next := n.named[name]; next != nil {
		return next
	}
	next := &Step{Name: name, Index: -1, column: -1}
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
type Paths[V Nested[V]] struct {
	root  Step
	found []presence // by column, in the last value
	cells []tabular.Cell
	put   func(at *Step, part V) error
}

// presence is how a column was found.
type presence uint8

const (
	absent presence = iota
	byPath
	byName
)

// NewPaths returns the Paths with these names.
func NewPaths[V Nested[V]](names []string) *Paths[V] {
	c := &Paths[V]{root: Step{column: -1}, found: make([]presence, len(names))}
	for i, name := range names {
		at := &c.root
		for _, step := range Path(name) {
			at = at.step(step)
		}
		at.column, at.whole = i, at == c.root.named[name]
		whole := c.root.step(name)
		whole.column, whole.whole = i, true
	}
	c.put = c.keep
	return c
}

// Read copies the columns of an object to cells, and does not change the cells of those that it lacks.
func (c *Paths[V]) Read(object V, cells []tabular.Cell) error {
	clear(c.found)
	c.cells = cells
	return object.Parts(&c.root, c.put)
}

// Has reports whether the last object has a column.
func (c *Paths[V]) Has(column int) bool { return c.found[column] != absent }

// keep copies a part to its column, and finds those within it.
func (c *Paths[V]) keep(at *Step, part V) error {
	how := byPath
	if at.whole {
		how = byName
	}
	if at.column >= 0 && c.found[at.column] < how {
		c.cells[at.column], c.found[at.column] = part.Cell(), how
	}
	if len(at.Below) == 0 {
		return nil
	}
	if kind := part.Kind(); kind != Object && kind != List {
		return nil
	}
	return part.Parts(at, c.put)
}

// find returns the part of a value at a path. ok is false if there is none.
func find[V Nested[V]](v V, path []*Step) (found V, ok bool, err error) {
	for _, step := range path {
		ok = false
		if kind := v.Kind(); kind == Object || kind == List {
			err = v.Parts(step, func(_ *Step, part V) error {
				found, ok = part, true
				return nil
			})
		}
		if err != nil || !ok {
			return found, false, err
		}
		v = found
	}
	return v, true, nil
}
