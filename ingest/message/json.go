package message

import (
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/value"
)

// JSON is a JSON value that CheckJSON has accepted, in which columns are found by path. A duplicate member is an error.
type JSON value.Cell

// Kind implements Nested.
func (n JSON) Kind() Kind {
	switch cell := value.Cell(n); {
	case cell.Null():
		return Null
	case cell[0] == '{':
		return Object
	case cell[0] == '[':
		return List
	}
	return Scalar
}

// Parts implements Nested.
func (n JSON) Parts(at *Step, put func(at *Step, part JSON) error) error {
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
	var items []JSON
	for item := range value.Cell(n).All() {
		if len(items) > last {
			break
		}
		items = append(items, JSON(item))
	}
	return Parts(at, func(next *Step) (part JSON, ok bool) {
		if ok = next.Index >= 0 && next.Index < len(items); ok {
			part = items[next.Index]
		}
		return part, ok
	}, put)
}

// Items implements Nested.
func (n JSON) Items(put func(item JSON) error) error {
	for item := range value.Cell(n).All() {
		if err := put(JSON(item)); err != nil {
			return err
		}
	}
	return nil
}

// Cell implements Nested.
func (n JSON) Cell() tabular.Cell { return tabular.JSON(value.Cell(n)) }
