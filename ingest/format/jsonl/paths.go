package jsonl

import (
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// Nested is a JSON value that CheckJSON has accepted, in which columns are found by path. A duplicate member is an error.
type Nested value.Cell

// Kind implements message.Nested.
func (n Nested) Kind() message.Kind {
	switch cell := value.Cell(n); {
	case cell.Null():
		return message.Null
	case cell[0] == '{':
		return message.Object
	case cell[0] == '[':
		return message.List
	}
	return message.Scalar
}

// Parts implements message.Nested.
func (n Nested) Parts(at *message.Step, put func(at *message.Step, part Nested) error) error {
	if n[0] == '{' {
		return value.Cell(n).Each(func(name []byte, member value.Cell) error {
			if next := at.Named(name); next != nil {
				return put(next, Nested(member))
			}
			return nil
		})
	}
	last := -1
	for _, next := range at.Below {
		last = max(last, next.Index)
	}
	var items []value.Cell
	for item := range value.Cell(n).All() {
		if len(items) > last {
			break
		}
		items = append(items, item)
	}
	for _, next := range at.Below {
		if next.Index >= 0 && next.Index < len(items) {
			if err := put(next, Nested(items[next.Index])); err != nil {
				return err
			}
		}
	}
	return nil
}

// Items implements message.Nested.
func (n Nested) Items(put func(item Nested) error) error {
	for item := range value.Cell(n).All() {
		if err := put(Nested(item)); err != nil {
			return err
		}
	}
	return nil
}

// Cell implements message.Nested.
func (n Nested) Cell() tabular.Cell { return tabular.JSON(value.Cell(n)) }

// Paths finds columns in JSON objects.
type Paths = message.Paths[Nested]

// NewPaths returns the Paths of these columns.
func NewPaths(columns []string) *Paths { return message.NewPaths[Nested](columns) }

// pathsOf returns the columns that are paths.
func pathsOf(columns []string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(name string) bool { return len(message.Path(name)) < 2 })
}
