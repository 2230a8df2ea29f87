package table

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
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
	type row struct {
		Path string `avro:"file_path"`
		Row  *int64 `avro:"pos"`
	}
	isPosition := func(path string) bool { return path == "file_path" || path == "pos" }
	for _, f := range positions {
		err := eachParquet(t, t.path(f.File.Path), parquet.Columns{Wanted: isPosition}, func(r row) error {
			if r.Path == "" || r.Row == nil {
				return errors.New("expected the columns file_path and pos")
			}
			d.positions[r.Path] = append(d.positions[r.Path], position{*r.Row, f.sequence})
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
	return eachParquet(t, path, parquet.Columns{Names: names, IDs: of.ids}, func(row map[string]any) error {
		var key []string
		for _, id := range ids {
			text, err := textOf(find(row, uniqueName(id)))
			if err != nil {
				return fmt.Errorf("an equality delete by the column %s: %w", of.names[id], err)
			}
			key = append(key, text)
		}
		visit(strings.Join(key, ","))
		return nil
	})
}

// uniqueName returns the name of a column that no other one has, whatever columns it is in.
func uniqueName(id int) string { return fmt.Sprint("column with ID ", id) }

// find returns the value of a column, at any depth.
func find(row map[string]any, name string) any {
	if v, found := row[name]; found {
		return v
	}
	for _, v := range row {
		if below, is := v.(map[string]any); is {
			if found := find(below, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// textOf returns a text that equal values have.
func textOf(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "null", nil
	case string:
		return strconv.Quote(v), nil
	case []byte:
		return strconv.Quote(string(v)), nil
	case float32:
		return fmt.Sprint(float64(v)), nil
	case []any, map[string]any:
		return "", errors.New("not a single value")
	}
	return fmt.Sprint(v), nil
}
