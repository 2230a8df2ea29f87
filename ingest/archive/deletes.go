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
	"github.com/stagewise/stagewise/schemas/stream"
)

// deletes are the rows that the delete files of an Iceberg snapshot remove (https://iceberg.apache.org/spec/#scan-planning).
type deletes struct {
	positions map[string][]position // by the path of the file that has the rows
	equal     []equalDeletes
}

// position is a row that a position delete file removes from data files that are not newer.
type position struct{ row, sequence int64 }

// equalDeletes is an equality delete file. It removes the rows of older files that have the same values as one of its rows.
type equalDeletes struct {
	icebergFile
	keys map[string]bool
}

// deletes reads delete files.
func (t *table) deletes(positions, equal []icebergFile, of columns) (d deletes, err error) {
	d.positions = map[string][]position{}
	isPosition := func(path string) bool { return path == "file_path" || path == "pos" }
	for _, f := range positions {
		err := eachParquet(t, t.path(f.File.Path), parquet.Columns{Wanted: isPosition}, func(r arrow.Nested) error {
			of, at := r.Of.Named("file_path"), r.Of.Named("pos")
			if of == nil || at == nil || of.Type != stream.Text || at.Type != stream.Whole {
				return errors.New("expected the columns file_path and pos")
			}
			row, _ := at.Whole(r.Row)
			path := strings.Clone(of.Text(r.Row))
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
		err := t.eachKey(dataFile{Path: t.path(f.File.Path)}, *f.File.Equal, of, func(key string) { e.keys[key] = true })
		if err != nil {
			return d, err
		}
		d.equal = append(d.equal, e)
	}
	return d, nil
}

// of returns the deleted rows of a file.
func (d deletes) of(t *table, f icebergFile, file dataFile, of columns) (rows []int64, err error) {
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
		err := t.eachKey(file, *these[0].File.Equal, of, func(key string) {
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

// eachKey calls visit for each row of a file, with a text for the values of the columns with the given IDs. Equal values have equal
// texts, even if the type of a column was widened. A column that the file lacks has its partition value, or is null.
func (t *table) eachKey(file dataFile, ids []int, of columns, visit func(key string)) error {
	names := map[int]string{}
	for _, id := range ids {
		for at := id; at != 0; at = of.above[at] {
			names[at] = of.name(at)
		}
	}
	keyed := parquet.Columns{Names: names, IDs: of.ids, Values: file.Values}
	return eachParquet(t, file.Path, keyed, func(row arrow.Nested) error {
		var key []string
		for _, id := range ids {
			text, ok := textOf(of.in(row.Of, id), row.Row)
			if !ok {
				return fmt.Errorf("an equality delete by the column %s: not a single value", of.names[id])
			}
			key = append(key, text)
		}
		visit(strings.Join(key, ","))
		return nil
	})
}

// in returns the values of a column in rows; nil if the rows lack the column.
func (c columns) in(rows *stream.Values, id int) *stream.Values {
	if above := c.above[id]; above != 0 {
		rows = c.in(rows, above)
	}
	if rows == nil || rows.Type != stream.Struct {
		return nil
	}
	return rows.Named(c.name(id))
}

// name returns the name of a column, including a dropped one.
func (c columns) name(id int) string {
	if name := c.names[id]; name != "" {
		return name
	}
	return fmt.Sprint("column with ID ", id)
}

// textOf returns a text that is the same for equal values. A nil v is a null.
func textOf(v *stream.Values, row int) (text string, ok bool) {
	if v == nil || v.Null(row) {
		return "null", true
	}
	_, isDecimal := v.Column.DataType().(arrowtypes.DecimalType)
	switch {
	case v.Type == stream.List || v.Type == stream.Struct:
		return "", false
	case v.Type == stream.Moment: // time zones may differ between files
		text = textOfTime(v.Moment(row))
	case v.Type == stream.Other || isDecimal:
		text = v.Column.ValueStr(row)
	default:
		text = v.Text(row)
	}
	return strconv.Quote(text), true
}
