package jsonl

import (
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// Paths finds columns in objects: members, and nested values by path. A member whose name equals a path takes precedence.
type Paths struct {
	root node
	how  []uint8 // how each column of the object was found
}

// node is a node of the tree of paths.
type node struct {
	column  int // -1: none
	literal bool
	below   map[string]*node
}

const (
	absent uint8 = iota
	byPath
	byName
)

// NewPaths returns the Paths of these columns.
func NewPaths(columns []string) *Paths {
	p := &Paths{root: node{column: -1}, how: make([]uint8, len(columns))}
	for i, name := range columns {
		at := &p.root
		for _, step := range message.Path(name) {
			at = at.step(step)
		}
		at.column, at.literal = i, at == p.root.below[name]
		whole := p.root.step(name)
		whole.column, whole.literal = i, true
	}
	return p
}

// step returns a child of a node, which it adds if necessary.
func (n *node) step(name string) *node {
	if n.below == nil {
		n.below = map[string]*node{}
	}
	next := n.below[name]
	if next == nil {
		next = &node{column: -1}
		n.below[name] = next
	}
	return next
}

// Read copies the columns of an object to cells, and does not change those that it lacks. A duplicate member is an error.
func (p *Paths) Read(object value.Cell, cells []tabular.Cell) error {
	clear(p.how)
	return p.read(&p.root, object, cells)
}

// Has reports whether the last object has a column.
func (p *Paths) Has(column int) bool { return p.how[column] != absent }

func (p *Paths) read(n *node, cell value.Cell, cells []tabular.Cell) error {
	put := func(next *node, cell value.Cell) error {
		how := byPath
		if next.literal {
			how = byName
		}
		if next.column >= 0 && p.how[next.column] < how {
			cells[next.column], p.how[next.column] = tabular.JSON(cell), how
		}
		if next.below == nil || cell.Null() || cell[0] != '{' && cell[0] != '[' {
			return nil
		}
		return p.read(next, cell, cells)
	}
	if cell[0] == '{' {
		return cell.Each(func(name []byte, member value.Cell) error {
			if next := n.below[string(name)]; next != nil {
				return put(next, member)
			}
			return nil
		})
	}
	for i, item := range cell.Items() {
		if next := n.below[strconv.Itoa(i)]; next != nil {
			if err := put(next, item); err != nil {
				return err
			}
		}
	}
	return nil
}

// valueAt returns the value at a path. ok is false if there is none.
func valueAt(cell value.Cell, path []string) (found value.Cell, ok bool, err error) {
	for _, step := range path {
		ok = false
		switch {
		case cell.Null():
		case cell[0] == '{':
			err = cell.Members(func(name string, member value.Cell) error {
				if name == step {
					found, ok = member, true
				}
				return nil
			})
		case cell[0] == '[':
			items := cell.Items()
			if i, notNumber := strconv.Atoi(step); notNumber == nil && i >= 0 && i < len(items) {
				found, ok = items[i], true
			}
		}
		if err != nil || !ok {
			return nil, false, err
		}
		cell = found
	}
	return cell, true, nil
}

// pathsOf returns the columns that are paths.
func pathsOf(columns []string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(name string) bool { return len(message.Path(name)) < 2 })
}
