package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
)

const meaning = "an object with a value for each column, or an array of such objects"

// Messages is JSON (RFC 8259) in messages: an object with a value for each column, or an array of such objects. Columns
// that no key names are not read. If columns.use names a single column, that may be an array of all features.
func Messages() message.Format {
	return message.Format{
		Name:    "json",
		Meaning: meaning,
		Label:   message.Label,
		IsText:  true,
		Keys:    message.NamedKeys(),
		Check:   func(o message.Options) []option.Problem { return message.CheckNamed(o) },
		Open: func(o message.Options) (message.Reader, error) {
			columns := message.Columns(o.Options)
			r := &messages{options: o, columns: columns, paths: NewPaths(columns), most: message.MaxRows(o.Options)}
			if o.Rows != "" {
				r.rows = message.Path(o.Rows)
			}
			return r, nil
		},
	}
}

// messages reads objects.
type messages struct {
	options message.Options
	columns []string
	paths   *Paths
	rows    []string // path of the rows; nil: the message itself
	most    int
	read    [][]tabular.Cell
	last    [2]value.Cell // the last row, and with rows the message; nil: none
}

// Names implements message.Reader. Those of nested objects are paths.
func (r *messages) Names() (names []string) {
	for _, object := range r.last {
		if len(object) > 0 && object[0] == '{' {
			names = appendPaths(names, "", object)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
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
	r.read, r.last = r.read[:0], [2]value.Cell{}
	if r.rows == nil {
		return r.rowsOf(content, nil)
	}
	rows, ok, err := valueAt(content, r.rows)
	switch {
	case err != nil:
		return nil, err
	case !ok && content[0] != '{':
		return nil, fmt.Errorf("%s: expected an object with the rows at %s (examples.rows)", content, value.Quote(r.options.Rows))
	case !ok:
		return nil, message.NoRowsError(r.options.Rows, slices.Sorted(maps.Keys(membersOf(content))))
	case rows.Null(): // for example the state after the deletion of a row
		return nil, nil
	}
	r.last[1] = content
	shared := make([]tabular.Cell, len(r.columns))
	if content[0] == '{' {
		if err := r.paths.Read(content, shared); err != nil {
			return nil, err
		}
	}
	return r.rowsOf(rows, shared)
}

// Unread implements message.Namer.
func (r *messages) Unread(p message.Payload) (names []string) {
	content := value.Cell(bytes.TrimSpace(p.Value))
	if r.rows != nil {
		content, _, _ = valueAt(content, r.rows)
	}
	if len(content) > 0 && content[0] == '[' {
		if items := content.Items(); len(items) > 0 {
			content = items[0]
		}
	}
	return r.unread(content, nil)
}

// unread returns the paths below one in an object that no column has.
func (r *messages) unread(object value.Cell, path []string) (names []string) {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	members := membersOf(object)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at := append(slices.Clone(path), name)
		within := slices.ContainsFunc(r.columns, func(column string) bool {
			of := message.Path(column)
			return len(of) >= len(at) && slices.Equal(of[:len(at)], at)
		})
		if within {
			names = append(names, r.unread(members[name], at)...)
		} else {
			names = append(names, strings.Join(at, "."))
		}
	}
	return names
}

// rowsOf returns the rows in an object or in an array of objects. Columns that a row lacks are taken from shared.
func (r *messages) rowsOf(content value.Cell, shared []tabular.Cell) ([][]tabular.Cell, error) {
	if content[0] != '[' {
		err := r.add(content, shared)
		return r.read, err
	}
	for i, object := range content.Items() {
		if err := r.add(object, shared); err != nil {
			return nil, fmt.Errorf("row %d, counted from 0: %w", i, err)
		}
	}
	return r.read, nil
}

// add adds a row.
func (r *messages) add(object value.Cell, shared []tabular.Cell) error {
	if len(object) == 0 || object[0] != '{' {
		return fmt.Errorf("%s: expected %s", object, meaning)
	}
	if len(r.read) >= r.most {
		return message.TooManyRows(r.most)
	}
	r.last[0] = object
	row := message.NextRow(&r.read, len(r.columns))
	copy(row, shared)
	if err := r.paths.Read(object, row); err != nil {
		return err
	}
	o := &r.options
	if len(o.Targets)+len(o.LabelColumns) == 0 && message.Predicted(o.Options) > 0 && !r.paths.Has(0) && (shared == nil || shared[0].Null()) {
		return lacksColumn(object, r.columns[0], o.Rows)
	}
	return nil
}

// lacksColumn returns the error for an object without the label column, with its members, and the path at which the column
// was found.
func lacksColumn(cell value.Cell, column, rows string) error {
	object := membersOf(cell)
	names := slices.Sorted(maps.Keys(object))
	if within := findColumn(object, column); within != "" {
		if rows != "" {
			within = rows + "." + within
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
