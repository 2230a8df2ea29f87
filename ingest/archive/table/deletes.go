package table

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	parquetformat "github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas/value"
)

// deletes are the rows that the deletes of a snapshot of Iceberg remove (https://iceberg.apache.org/spec/#scan-planning).
type deletes struct {
	positions map[string][]position // by the path of the file that has the rows, as a value of a column
	equal     []equalDeletes
}

// position is a row that a file of positions deletes from files that are not newer.
type position struct{ row, sequence int64 }

// equalDeletes are the rows that a file of equality deletes removes from files that are older: those with the values of one of its rows.
type equalDeletes struct {
	icebergFile
	columns []column
	rows    map[string]bool // by keyOf
}

// column is a column of a file, by the ID of its field, or by its name if the file has no IDs.
type column struct {
	id   int
	name string
}

// The columns of a file of positions.
var positionColumns = []column{{math.MaxInt32 - 101, "file_path"}, {math.MaxInt32 - 102, "pos"}}

// deletes reads files of deletes.
func (t *table) deletes(positions, equal []icebergFile, names map[int]string) (d deletes, err error) {
	d.positions = map[string][]position{}
	for _, f := range slices.Concat(positions, equal) {
		if err := checkFormat(t.path(f.File.Path), f.File.Format); err != nil {
			return d, err
		}
	}
	for _, f := range positions {
		err := t.eachRow(t.path(f.File.Path), positionColumns, func(_ int64, values []string) error {
			row, err := strconv.ParseInt(values[1], 10, 64)
			d.positions[values[0]] = append(d.positions[values[0]], position{row, f.sequence})
			return err
		})
		if err != nil {
			return d, err
		}
	}
	for _, f := range equal {
		e := equalDeletes{icebergFile: f, rows: map[string]bool{}}
		if f.File.Equal != nil {
			for _, id := range *f.File.Equal {
				e.columns = append(e.columns, column{id, names[id]})
			}
		}
		if len(e.columns) == 0 {
			return d, input.WholeFile(t.path(f.File.Path), errors.New("equality deletes without columns"))
		}
		err := t.eachRow(t.path(f.File.Path), e.columns, func(_ int64, values []string) error {
			e.rows[strings.Join(values, ",")] = true
			return nil
		})
		if err != nil {
			return d, err
		}
		d.equal = append(d.equal, e)
	}
	return d, nil
}

// of returns the rows of a file that are deleted.
func (d deletes) of(t *table, f icebergFile, file DataFile) (rows []int64, err error) {
	for _, p := range d.positions[strconv.Quote(f.File.Path)] {
		if f.sequence <= p.sequence {
			rows = append(rows, p.row)
		}
	}
	alike := map[string][]equalDeletes{} // by their columns
	for _, e := range d.equal {
		if f.sequence < e.sequence && (f.partition == e.partition || len(e.File.Partition) == 0) {
			key := fmt.Sprint(e.columns)
			alike[key] = append(alike[key], e)
		}
	}
	for _, these := range alike {
		err := t.eachRow(file.Path, these[0].columns, func(row int64, values []string) error {
			key := strings.Join(values, ",")
			if slices.ContainsFunc(these, func(e equalDeletes) bool { return e.rows[key] }) {
				rows = append(rows, row)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows), nil
}

// eachRow calls visit for the rows of a file in Parquet, with the values of some columns. Texts that are equal are equal values, whatever
// the types that a column had before its type was widened. A column that the file lacks is null.
func (t *table) eachRow(path string, columns []column, visit func(row int64, values []string) error) error {
	f, err := t.open(path)
	if err != nil {
		return err
	}
	if err = eachRow(f, columns, visit); err != nil {
		err = input.WholeFile(path, err)
	}
	return errors.Join(err, f.Close())
}

func eachRow(f interface {
	io.ReaderAt
	Size() int64
}, columns []column, visit func(row int64, values []string) error) error {
	file, err := parquet.OpenFile(f, f.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	found := make([]*parquet.Column, len(columns))
	for i, c := range columns {
		if found[i] = leafOf(file.Root(), c.id); found[i] == nil && !hasIDs(file.Root()) {
			found[i] = file.Root().Column(c.name)
		}
		if found[i] != nil && (!found[i].Leaf() || found[i].MaxRepetitionLevel() > 0) {
			return fmt.Errorf("the column %s is not a single value", c.name)
		}
	}
	values, row := make([]string, len(columns)), int64(0)
	for g, group := range file.RowGroups() {
		readers := make([]*valueReader, len(columns))
		for i, c := range found {
			if c == nil {
				continue
			}
			if err := parquetformat.CheckCodec(file.Metadata().RowGroups[g].Columns[c.Index()].MetaData.Codec); err != nil {
				return err
			}
			readers[i] = &valueReader{from: parquet.NewColumnChunkValueReader(group.ColumnChunks()[c.Index()]), decimal: isDecimal(c)}
			defer readers[i].from.Close()
		}
		for range group.NumRows() {
			for i, r := range readers {
				if values[i] = null; r == nil {
					continue
				}
				if values[i], err = r.next(); err != nil {
					return err
				}
			}
			if err := visit(row, values); err != nil {
				return err
			}
			row++
		}
	}
	return nil
}

// leafOf returns the column whose field has an ID; nil: there is none.
func leafOf(of *parquet.Column, id int) *parquet.Column {
	if of.ID() == id {
		return of
	}
	for _, c := range of.Columns() {
		if found := leafOf(c, id); found != nil {
			return found
		}
	}
	return nil
}

func hasIDs(of *parquet.Column) bool {
	return of.ID() != 0 || slices.ContainsFunc(of.Columns(), hasIDs)
}

func isDecimal(c *parquet.Column) bool {
	logical := c.Type().LogicalType()
	if logical == nil {
		return false
	}
	_, is := logical.Value.(*format.DecimalType)
	return is
}

// null is the text of a null, which no value has.
const null = "null"

// valueReader reads the values of a column in a row group.
type valueReader struct {
	from    parquet.ColumnChunkValueReader
	decimal bool
	ahead   []parquet.Value
	at      int
}

func (r *valueReader) next() (string, error) {
	if r.at == len(r.ahead) {
		r.ahead = slices.Grow(r.ahead[:0], 1024)[:1024]
		n, err := r.from.ReadValues(r.ahead)
		if r.ahead, r.at = r.ahead[:n], 0; n == 0 {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
	}
	v := r.ahead[r.at]
	r.at++
	if v.IsNull() {
		return null, nil
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.FormatBool(v.Boolean()), nil
	case parquet.Int32, parquet.Int64:
		return big.NewInt(v.Int64()).String(), nil
	case parquet.Float:
		return strconv.FormatFloat(float64(v.Float()), 'g', -1, 64), nil
	case parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		if r.decimal {
			return value.BigEndian(v.ByteArray()).String(), nil
		}
		return strconv.Quote(string(v.ByteArray())), nil
	}
	return "", fmt.Errorf("a column of %s can't be compared", v.Kind())
}
