package archive

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	arrowtypes "github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas/arrowvalue"
)

// deletes are the rows that the deletes of a snapshot of Iceberg remove (https://iceberg.apache.org/spec/#scan-planning).
type deletes struct {
	positions map[string][]position // by the path of the file that has the rows
	equal     []equalDeletes
}

// position is a row that a file of positions deletes from files that are not newer.
type position struct{ row, sequence int64 }

// equalDeletes are the rows that a file of equality deletes removes from files that are older: those with the values of one of its rows.
type equalDeletes struct {
	icebergFile
	keys map[string]bool
}

// deletes reads files of deletes.
func (t *table) deletes(positions, equal []icebergFile, of columns) (d deletes, err error) {
	d.positions = map[string][]position{}
	for _, f := range slices.Concat(positions, equal) {
		if err := checkFormat(t.path(f.File.Path), f.File.Format); err != nil {
			return d, err
		}
	}
	isPosition := func(path string) bool { return path == "file_path" || path == "pos" }
	for _, f := range positions {
		err := eachParquet(t, t.path(f.File.Path), parquet.Columns{Wanted: isPosition}, func(r arrow.Nested) error {
			of, at := find(r, "file_path"), find(r, "pos")
			if of.Of == nil || at.Of == nil || of.Of.Type != arrowvalue.Text || at.Of.Type != arrowvalue.Whole {
				return errors.New("expected the columns file_path and pos")
			}
			row, _ := at.Of.Whole(at.Row)
			path := strings.Clone(of.Of.Text(of.Row))
			d.positions[path] = append(d.positions[path], position{row, f.sequence})
			return nil
		})
		if err != nil {
			return d, err
		}
	}
	for _, f := range equal {
		if f.File.Equal == nil || len(*f.File.Equal) == 0 {
			return d, input.WholeFile(t.path(f.File.Path), errors.New("equality deletes without columns"))
		}
		e := equalDeletes{icebergFile: f, keys: map[string]bool{}}
		err := t.eachKey(t.path(f.File.Path), *f.File.Equal, of, func(key string) { e.keys[key] = true })
		if err != nil {
			return d, err
		}
		d.equal = append(d.equal, e)
	}
	return d, nil
}

// of returns the rows of a file that are deleted.
func (d deletes) of(t *table, f icebergFile, path string, of columns) (rows []int64, err error) {
	for _, p := range d.positions[f.File.Path] {
		if f.sequence <= p.sequence {
			rows = append(rows, p.row)
		}
	}
	alike := map[string][]equalDeletes{} // by their columns
	for _, e := range d.equal {
		if f.sequence < e.sequence && (f.partition == e.partition || e.isGlobal()) {
			ids := fmt.Sprint(*e.File.Equal)
			alike[ids] = append(alike[ids], e)
		}
	}
	for _, these := range alike {
		row := int64(0)
		err := t.eachKey(path, *these[0].File.Equal, of, func(key string) {
			if slices.ContainsFunc(these, func(e equalDeletes) bool { return e.keys[key] }) {
				rows = append(rows, row)
			}
			row++
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows), nil
}

// eachKey calls visit for the rows of a file, with a text for the values of the columns with some IDs. Texts are equal if the values are,
// whatever the types that a column had before its type was widened. A column that the file lacks is null.
func (t *table) eachKey(path string, ids []int, of columns, visit func(key string)) error {
	names := map[int]string{}
	for _, id := range ids {
		for at := of.above[id]; at != 0; at = of.above[at] {
			names[at] = of.names[at]
		}
	}
	for _, id := range ids {
		names[id] = uniqueName(id)
	}
	return eachParquet(t, path, parquet.Columns{Names: names, IDs: of.ids}, func(row arrow.Nested) error {
		var key []string
		for _, id := range ids {
			text, ok := textOf(find(row, uniqueName(id)))
			if !ok {
				return fmt.Errorf("an equality delete by the column %s: not a single value", of.names[id])
			}
			key = append(key, text)
		}
		visit(strings.Join(key, ","))
		return nil
	})
}

// uniqueName returns the name of a column that no other one has, whatever columns it is in.
func uniqueName(id int) string { return fmt.Sprint("column with ID ", id) }

// find returns the value of a column, at any depth. It has no values if the column is not there, or in a null.
func find(row arrow.Nested, name string) (found arrow.Nested) {
	t, is := row.Of.Column.DataType().(*arrowtypes.StructType)
	if !is || row.Of.Null(row.Row) {
		return found
	}
	for i, f := range t.Fields() {
		part := arrow.Nested{Of: row.Of.At(i), Row: row.Row}
		if f.Name == name {
			return part
		}
		if found = find(part, name); found.Of != nil {
			return found
		}
	}
	return found
}

// textOf returns a text that equal values have.
func textOf(v arrow.Nested) (text string, ok bool) {
	if v.Of == nil || v.Of.Null(v.Row) {
		return "null", true
	}
	switch v.Of.Type {
	case arrowvalue.Text:
		return strconv.Quote(v.Of.Text(v.Row)), true
	case arrowvalue.Boolean, arrowvalue.Whole, arrowvalue.Moment:
		return v.Of.Text(v.Row), true
	case arrowvalue.Number:
		if _, exact := v.Of.Column.DataType().(arrowtypes.DecimalType); !exact {
			return v.Of.Text(v.Row), true
		}
	case arrowvalue.List, arrowvalue.Struct:
		return "", false
	}
	return strconv.Quote(v.Of.Column.ValueStr(v.Row)), true
}
