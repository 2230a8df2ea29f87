package plain

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// JSONMessages is JSON (RFC 8259) in messages: an object with a value for each column, or an array of such objects. Columns
// that no key names are not read. If columns.use names a single column, that may be an array of all features.
func JSONMessages() message.Format {
	return message.Format{
		Name:    "json",
		Meaning: message.Meaning,
		Label:   message.Label,
		IsText:  true,
		Open: func(o message.Options) (message.Reader, error) {
			r := &jsonMessages{options: o}
			r.rows = message.NewRows[message.JSON](o, r.Names)
			return r, nil
		},
	}
}

// jsonMessages reads objects.
type jsonMessages struct {
	options message.Options
	rows    *message.Rows[message.JSON]
	last    value.Cell // the last message; nil: none
}

// Names implements message.Reader. Values of rows have paths within a row.
func (r *jsonMessages) Names() (names []string) {
	names = appendPaths(nil, "", r.last)
	if items := r.last.Items(); len(items) > 0 {
		names = appendPaths(nil, "", items[len(items)-1])
	}
	for i, name := range names {
		if within, ok := strings.CutPrefix(name, r.options.Rows+"."); ok {
			names[i] = strings.TrimPrefix(within, "0.")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxPaths is the number of paths after which an object has no further ones in errors.
const maxPaths = 1000

// appendPaths appends the paths of the values in an object that are neither objects nor lists of objects.
func appendPaths(paths []string, within string, object value.Cell) []string {
	if object.Null() || object[0] != '{' {
		return paths
	}
	_ = object.Each(func(name []byte, cell value.Cell) error {
		path := within + string(name)
		if items := cell.Items(); len(items) > 0 {
			cell, path = items[0], path+".0"
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

// Read implements message.Reader.
func (r *jsonMessages) Read(_ context.Context, p message.Payload) ([][]tabular.Cell, error) {
	content := value.Cell(bytes.TrimSpace(p.Value))
	if err := value.CheckJSON(content); errors.Is(err, value.ErrNotUTF8) {
		return nil, r.options.NotUTF8(err, true)
	} else if err != nil {
		return nil, err
	}
	r.last = content
	return r.rows.Read(message.JSON(content))
}
