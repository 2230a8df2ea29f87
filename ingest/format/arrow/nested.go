package arrow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/arrowvalue"
)

// Nested is a row of a record, or a value in one.
type Nested struct {
	Of  *arrowvalue.Values
	Row int
}

// RowsOf returns the rows of a batch as structs.
func RowsOf(batch arrow.Record) *arrowvalue.Values {
	return arrowvalue.Of(array.RecordToStructArray(batch))
}

// Message returns a row as the decoded value of a message.
func (n Nested) Message() message.Row { return message.Row{Format: streams, Of: n.Of, At: n.Row} }

// maxItems limits the items of a column of lists in a batch that take no bytes.
const maxItems = 1 << 18

// Kind implements message.Nested.
func (n Nested) Kind() message.Kind {
	switch {
	case n.Of.Null(n.Row):
		return message.Null
	case n.Of.Type == arrowvalue.Struct, n.isMap():
		return message.Object
	case n.Of.Type == arrowvalue.List:
		return message.List
	}
	return message.Scalar
}

func (n Nested) isMap() bool { return n.Of.Column.DataType().ID() == arrow.MAP }

// Parts implements message.Nested.
func (n Nested) Parts(at *message.Step, put func(at *message.Step, part Nested) error) error {
	switch {
	case n.isMap():
		return n.entries(func(key string, v Nested) error {
			if next := at.Named([]byte(key)); next != nil {
				return put(next, v)
			}
			return nil
		})
	case n.Of.Type == arrowvalue.List:
		from, to := n.Of.Range(n.Row)
		return message.Parts(at, func(next *message.Step) (Nested, bool) {
			return Nested{n.Of.Items(), from + next.Index}, next.Index >= 0 && next.Index < to-from
		}, put)
	}
	for _, next := range at.Below {
		of := n.Of.Named(next.Name)
		if of == nil {
			continue
		}
		if err := checkItems(of); err != nil {
			return fmt.Errorf("column %s: %w", strconv.Quote(next.Name), err)
		}
		if err := put(next, Nested{of, n.Row}); err != nil {
			return err
		}
	}
	return nil
}

// checkItems returns an error if lists have too many items that take no bytes.
func checkItems(of *arrowvalue.Values) error {
	for of.Type == arrowvalue.List {
		if of = of.Items(); of.Column.Len() > maxItems && isEmpty(of.Column.DataType()) {
			return fmt.Errorf("lists with more than %d values", maxItems)
		}
	}
	return nil
}

// isEmpty reports whether values of a type take no bytes.
func isEmpty(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.NullType:
		return true
	case *arrow.StructType:
		return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return !isEmpty(f.Type) })
	case *arrow.FixedSizeListType:
		return t.Len() == 0 || isEmpty(t.Elem())
	}
	return false
}

// entries calls put for each entry of a map whose key is a text or a number.
func (n Nested) entries(put func(key string, v Nested) error) error {
	keys, values := n.Of.Items().At(0), n.Of.Items().At(1)
	from, to := n.Of.Range(n.Row)
	for i := from; i < to; i++ {
		if keys.Type == arrowvalue.Text || keys.Type == arrowvalue.Whole {
			if err := put(keys.Text(i), Nested{values, i}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Items implements message.Nested.
func (n Nested) Items(put func(item Nested) error) error {
	from, to := n.Of.Range(n.Row)
	for i := from; i < to; i++ {
		if err := put(Nested{n.Of.Items(), i}); err != nil {
			return err
		}
	}
	return nil
}

// Cell implements message.Nested.
func (n Nested) Cell() tabular.Cell {
	of, i := n.Of, n.Row
	switch kind := n.Kind(); {
	case kind == message.Null:
		return tabular.Cell{}
	case kind == message.List:
		items := []tabular.Cell{}
		_ = n.Items(func(item Nested) error {
			items = append(items, item.Cell())
			return nil
		})
		return tabular.Items(items)
	}
	switch of.Type {
	case arrowvalue.Boolean:
		v, _ := of.Whole(i)
		return tabular.Truth(v != 0)
	case arrowvalue.Whole:
		if v, ok := of.Whole(i); ok {
			return tabular.Integer(v)
		}
		return tabular.Word(of.Text(i))
	case arrowvalue.Number:
		return tabular.Float(of.Number(i))
	case arrowvalue.Text:
		return tabular.Word(strings.Clone(of.Text(i))) // the text is a part of the batch
	case arrowvalue.Moment:
		return tabular.Time(of.Moment(i))
	}
	if binary, ok := of.Column.(*array.Binary); ok {
		return tabular.Word(string(binary.Value(i)))
	}
	return tabular.Object()
}

// partType returns the type of the values at a path in values of a type; nil: none.
func partType(t arrow.DataType, path []string) arrow.DataType {
	if len(path) == 0 {
		return t
	}
	switch t := t.(type) {
	case *arrow.StructType:
		if f, ok := t.FieldByName(path[0]); ok {
			return partType(f.Type, path[1:])
		}
	case *arrow.MapType:
		return partType(t.ItemType(), path[1:])
	case arrow.ListLikeType:
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 {
			return partType(t.Elem(), path[1:])
		}
	}
	return nil
}
