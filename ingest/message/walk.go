package message

import (
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/value"
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
	number int // in Below of its parent
	next   int // number of the step below that probably comes next
	walk   int // the last walk that has found it
}

// Parts calls put for the steps below n for which part returns a part.
func Parts[V any](n *Step, part func(next *Step) (V, bool), put func(at *Step, part V) error) error {
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
	if n.next < len(n.Below) && n.Below[n.next].Name == string(name) { // without a look into the map
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
type Paths[V Nested[V]] struct {
	root  Step
	walk  int        // number of values
	found []presence // by column, in the last value
	put   func(column int, part V) error
	keep  func(at *Step, part V) error
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
	c.keep = c.find
	return c
}

// Walk calls put with the value of each column of an object. A column that is found twice, by path and by name, has the last
// value. A member that comes twice is an error.
func (c *Paths[V]) Walk(object V, put func(column int, part V) error) error {
	c.walk++
	clear(c.found)
	c.put = put
	err := object.Parts(&c.root, c.keep)
	c.put = nil // it may hold the message
	return err
}

// Read copies the columns of an object to cells, and does not change the cells of those that it lacks.
func Read[V Nested[V]](c *Paths[V], object V, cells []tabular.Cell) error {
	return c.Walk(object, func(column int, part V) error {
		cells[column] = part.Cell()
		return nil
	})
}

// Has reports whether the last object has a column.
func (c *Paths[V]) Has(column int) bool { return c.found[column] != absent }

// find calls put with a part that is a column, and finds the columns within it.
func (c *Paths[V]) find(at *Step, part V) error {
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
	if kind := part.Kind(); kind != Object && kind != List {
		return nil
	}
	return part.Parts(at, c.keep)
}

// find returns the part of a value at a path, or a null before it. ok is false if there is none.
func find[V Nested[V]](v V, path []*Step) (found V, ok bool, err error) {
	for _, step := range path {
		if ok = false; v.Kind() == Null {
			return v, true, nil
		}
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
