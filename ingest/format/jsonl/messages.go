package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// Messages is JSON (RFC 8259) in messages: an object with a value for each column, or an array of such objects. Columns
// that no key names are not read. If columns.use names a single column, that may be an array of all features.
func Messages() message.Format {
	return message.Format{
		Name:    "json",
		Meaning: message.Meaning,
		Label:   message.Label,
		IsText:  true,
		Open: func(o message.Options) (message.Reader, error) {
			r := &messages{options: o, columns: message.Columns(o.Options), rows: message.NewRows[Nested](o)}
			r.rows.NoRows, r.rows.NoColumn = r.noRows, r.noColumn
			return r, nil
		},
	}
}

// messages reads objects.
type messages struct {
	options message.Options
	columns []string
	rows    *message.Rows[Nested]
	last    value.Cell // the last message; nil: none
}

// Names implements message.Reader: the paths of the last message, and of its last row.
func (r *messages) Names() (names []string) {
	if len(r.last) == 0 {
		return nil
	}
	rows := r.rowsOf(r.last)
	if items := rows.Items(); len(items) > 0 {
		rows = items[len(items)-1]
	}
	names = appendPaths(nil, "", rows)
	if r.options.Rows != "" {
		names = appendPaths(names, "", r.last)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rowsOf returns the rows of a message; nil: none.
func (r *messages) rowsOf(content value.Cell) value.Cell {
	if r.options.Rows == "" {
		return content
	}
	found := make([]tabular.Cell, 1)
	if Nested(content).Kind() == message.Object && message.Read(NewPaths([]string{r.options.Rows}), Nested(content), found) == nil {
		return found[0].Source()
	}
	return nil
}

// maxPaths is the number of paths after which an object has no further ones in errors.
const maxPaths = 1000

// appendPaths appends the paths of the values in an object that are no objects themselves.
func appendPaths(paths []string, within string, object value.Cell) []string {
	_ = object.Members(func(name string, cell value.Cell) error {
		switch {
		case len(paths) >= maxPaths:
		case !cell.Null() && cell[0] == '{':
			paths = appendPaths(paths, within+name+".", cell)
		default:
			paths = append(paths, within+name)
		}
		return nil
	})
	return paths
}

// Read implements message.Reader.
func (r *messages) Read(_ context.Context, p message.Payload) ([][]tabular.Cell, error) {
	content := value.Cell(bytes.TrimSpace(p.Value))
	if err := value.CheckJSON(content); errors.Is(err, value.ErrNotUTF8) {
		return nil, r.options.NotUTF8(err, true)
	} else if err != nil {
		return nil, err
	}
	r.last = content
	return r.rows.Read(Nested(content))
}

// noRows returns the error of a message without the path of the rows.
func (r *messages) noRows(content Nested) error {
	if content.Kind() != message.Object {
		return fmt.Errorf("%s: expected an object with the rows at %s (examples.rows)", value.Cell(content), value.Quote(r.options.Rows))
	}
	return message.NoRowsError(r.options.Rows, slices.Sorted(maps.Keys(membersOf(value.Cell(content)))))
}

// noColumn returns the error of an object without the label column, with its members, and the path at which the column was
// found.
func (r *messages) noColumn(cell Nested) error {
	object, column := membersOf(value.Cell(cell)), r.columns[0]
	names := slices.Sorted(maps.Keys(object))
	if within := findColumn(object, column); within != "" {
		if r.options.Rows != "" {
			within = r.options.Rows + "." + within
		}
		return fmt.Errorf("no column %s: the object has %s. The column is in %s: set examples.rows to that path", value.Quote(column),
			layout.SomeNames(names), value.Quote(within))
	}
	if len(names) == 0 {
		return fmt.Errorf("no column %s: the object is empty", value.Quote(column))
	}
	return fmt.Errorf("no column %s: the object has %s: examples.label names the label column", value.Quote(column),
		layout.SomeNames(names))
}

// findColumn returns the path of a nested object that has a column, such as payload.after; "": none.
func findColumn(object map[string]value.Cell, column string) string {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if object[name].Null() || object[name][0] != '{' && object[name][0] != '[' {
			continue
		}
		item := object[name]
		if items := item.Items(); len(items) > 0 {
			item = items[0]
		}
		inner := membersOf(item)
		if _, has := inner[column]; has {
			return name
		}
		if item[0] != '{' || object[name][0] == '[' {
			continue
		}
		if within := findColumn(inner, column); within != "" {
			return name + "." + within
		}
	}
	return ""
}

// membersOf returns the members of an object validated by CheckJSON.
func membersOf(object value.Cell) map[string]value.Cell {
	members := map[string]value.Cell{}
	_ = object.Members(func(name string, cell value.Cell) error {
		members[name] = cell
		return nil
	})
	return members
}
