package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/jsonl"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/serve/answers"
)

// The members of a request. Others are ignored.
const (
	keyRows    = "rows"
	keyColumns = "columns"
	keyTop     = "top"
	keyClasses = "classes"

	keyContributions = "contributions"
)

// jsonRows are the rows of a JSON request: {"columns": […], "rows": […]}. A row is an object of named values, or a list of values,
// in the order of columns if present and otherwise in that of the model. A value is a number, a boolean, null if it is missing,
// or a text with a word or a number. An absent column is missing, if the model was trained with missing values.
//
// For a model on texts, a row may be a text. For one on sparse rows, which have no columns, a row is {"indices": […], "values":
// […]}, the nonzero features, or a list of all values.
type jsonRows struct {
	*reader
	version *version
	rows    value.Cell
	texts   string            // column of texts, if rows may be texts; "": they may not
	order   []int             // column of the model for each value of a list; −1: none
	plain   bool              // the order is that of a list of numbers
	names   []json.RawMessage // of the values of a list, as JSON
	listed  []bool            // which columns lists have
	has     []bool            // which columns the current row has
	lacked  []bool            // columns that some rows lack
	missing int               // number of columns that rows lack, of all rows
	found   bool              // a row has one of the columns
	tile    []value.Cell      // rows of the current tile
	count   int               // number of rows before them
	put     func(column int, of jsonl.Nested) error
}

// members are the members of a request; nil: there is none.
type members struct{ rows, columns, top, classes, contributions value.Cell }

// parse returns the object in a body.
func parse(body []byte) (value.Cell, error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // as for files
	return value.Cell(bytes.TrimSpace(body)), value.CheckJSON(body)
}

// membersOf returns the members of a body of a content type or protocol. For MLflow, rows may be an object of columns.
func membersOf(body []byte, sent string) (m members, err error) {
	object, err := parse(body)
	if err != nil {
		return m, err
	}
	if sent == mlflow {
		err = m.readFrame(object)
	} else {
		err = object.Each(func(key []byte, cell value.Cell) error {
			switch string(key) {
			case keyRows:
				m.rows = cell
			case keyColumns:
				m.columns = cell
			case keyTop:
				m.top = cell
			case keyClasses:
				m.classes = cell
			case keyContributions:
				m.contributions = cell
			}
			return nil
		})
	}
	switch {
	case err != nil:
	case m.rows == nil:
		err = fmt.Errorf("no %q", keyRows)
	case m.rows[0] != '[' && (sent != mlflow || m.rows[0] != '{'):
		err = fmt.Errorf("%q: %s: expected a list of rows", keyRows, m.rows)
	}
	return m, err
}

// readFrame reads a request of MLflow: one of "dataframe_split", "dataframe_records", "instances" and "inputs". Names of columns that are
// numbers, as pandas numbers columns without names, are no names.
func (m *members) readFrame(object value.Cell) error {
	found := 0
	err := object.Each(func(key []byte, cell value.Cell) error {
		switch string(key) {
		case "dataframe_records", "instances", "inputs":
			m.rows = cell
		case "dataframe_split":
			err := cell.Each(func(key []byte, cell value.Cell) error {
				switch string(key) {
				case keyColumns:
					if numbered := bytes.IndexByte(cell, '"') < 0; !numbered {
						m.columns = cell
					}
				case "data":
					m.rows = cell
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%q: %w", key, err)
			}
		default:
			return nil
		}
		found++
		return nil
	})
	if err == nil && found != 1 {
		err = fmt.Errorf(`%d of "dataframe_split", "dataframe_records", "instances" and "inputs": expected one`, found)
	}
	return err
}

// newJSONRows returns the rows of a request, and sets the contents of the answer that it asks for.
func newJSONRows(m members, v *version, of *reader, asks *asked) (*jsonRows, error) {
	l, k := of.layout, of.layout.Names.Columns()
	all := make([]bool, 3*k)
	r := &jsonRows{reader: of, version: v, names: of.names, has: all[:k], lacked: all[k : 2*k], listed: all[2*k:],
		plain: l.IsList(), order: make([]int, k)}
	for column := range r.order {
		r.order[column], r.listed[column] = column, true
	}
	if !l.IsMixed() && l.Text >= 0 {
		r.texts = string(l.Options.Text)
	}
	r.put = func(column int, of jsonl.Nested) error {
		err := r.set(column, value.Cell(of))
		if err != nil {
			err = fmt.Errorf("column %.40q: %w", l.List()[column], err)
		}
		return err
	}
	r.rows = m.rows
	for _, member := range []struct {
		key  string
		cell value.Cell
		read func(value.Cell) error
	}{{keyColumns, m.columns, r.readColumns}, {keyTop, m.top, asks.setTop}, {keyClasses, m.classes, asks.setClasses},
		{keyContributions, m.contributions, asks.setContributions}} {
		if member.cell == nil {
			continue
		}
		if err := member.read(member.cell); err != nil {
			return nil, fmt.Errorf("%q: %w", member.key, err)
		}
	}
	return r, nil
}

// reader reads rows into blocks, and these into features. It belongs to a version, and is not safe for concurrent use.
type reader struct {
	layout *layout.Request
	paths  *jsonl.Paths
	names  []json.RawMessage // of the columns as JSON; nil: none
	block  tabular.Block
	filled examples.Rows
}

// reader returns a reader for the rows of a request.
func (v *version) reader() (*reader, error) {
	if r, ok := v.readers.Get().(*reader); ok {
		return r, nil
	}
	want := layout.Features{Columns: v.Columns(), Sparse: v.Sparse()}
	if !want.Sparse { // its columns are numbered
		want.Width = v.Width()
	}
	l, err := layout.NewRequest(v.options, want)
	if err != nil {
		return nil, err
	}
	return newReader(l), nil
}

func newReader(l *layout.Request) *reader {
	names := l.List()
	return &reader{layout: l, paths: jsonl.NewPaths(names), names: examples.TextLabels.Values(names)}
}

// keep puts a reader into the readers of the version, unless it has much memory.
func (v *version) keep(r *reader) {
	values := cap(r.filled.Floats)
	if s := r.filled.Sparse; s != nil {
		values += 2 * cap(s.Values)
	}
	for _, c := range r.block.Columns {
		values += cap(c.Numbers) + 2*cap(c.Texts) + cap(c.Indices)
		clear(c.Texts[:cap(c.Texts)]) // of the request
	}
	if values <= keptValues {
		v.readers.Put(r)
	}
}

// read implements rows.
func (r *jsonRows) read(most int, tile func(*examples.Rows) error) error {
	defer r.version.keep(r.reader)
	r.block.Reset(len(r.layout.Cells))
	for row := range r.rows.All() {
		if len(r.tile) == most {
			if err := r.fill(tile); err != nil {
				return err
			}
		}
		if err := r.row(row); err != nil {
			return fmt.Errorf("row %d: %w", r.count+len(r.tile), err)
		}
		r.tile = append(r.tile, row)
	}
	if len(r.tile) > 0 {
		if err := r.fill(tile); err != nil {
			return err
		}
	}
	if names := r.layout.List(); names != nil && r.count > 0 && !r.found {
		return fmt.Errorf("%w: the request has none of the model's columns", r.layout.Lacks(make([]bool, len(names))))
	}
	return nil
}

// readColumns reads the list of the columns.
func (r *jsonRows) readColumns(list value.Cell) error {
	var names []string
	switch err := json.Unmarshal(list, &names); {
	case r.layout.IsSparse():
		return errors.New("the model was trained on sparse rows, which have none")
	case !r.layout.HasNames():
		return fmt.Errorf("the model has no column names; omit it, and send the %d features in order", r.layout.Names.Columns())
	case err != nil:
		return fmt.Errorf("%s: expected a list of names", list)
	}
	var seen value.Names
	r.order, r.names, r.plain = nil, examples.TextLabels.Values(names), false
	clear(r.listed)
	for _, name := range names {
		if seen.Has([]byte(name)) {
			return fmt.Errorf("duplicate column %.40q", name)
		}
		column, known := r.layout.Find(name)
		if !known {
			column = -1
		} else {
			r.listed[column] = true
		}
		r.order = append(r.order, column)
	}
	return r.lacks(r.listed)
}

// lacks returns an error if a row lacks columns that must not be missing.
func (r *jsonRows) lacks(has []bool) error {
	if r.layout.Options.Missing.Mode == layout.MissingError || r.texts != "" {
		return r.layout.Lacks(has)
	}
	return nil
}

// fill calls tile with the features of the rows in the block.
func (r *jsonRows) fill(tile func(*examples.Rows) error) error {
	r.block.Rows = len(r.tile)
	r.filled.Reset()
	if troubles := r.layout.Fill(&r.block, &r.filled); troubles != nil {
		t := troubles[0]
		if names := r.layout.List(); names != nil && r.texts == "" {
			t.Err = fmt.Errorf("column %.40q: %w", names[t.Column], t.Err)
		}
		return fmt.Errorf("row %d: %w", r.count+t.Row, t.Err)
	}
	err := tile(&r.filled)
	r.block.Reset(len(r.layout.Cells))
	r.tile, r.count = r.tile[:0], r.count+len(r.tile)
	return err
}

// row reads a row into the block.
func (r *jsonRows) row(row value.Cell) error {
	expected := func(what string) error { return fmt.Errorf("%s: expected %s", row, what) }
	switch object, list := row[0] == '{', row[0] == '['; {
	case r.layout.Sparse >= 0 && object:
		return r.pairs(row)
	case r.layout.Sparse >= 0 && list:
		return r.values(row)
	case r.layout.Sparse >= 0:
		return expected(`an object with "indices" and "values", or a list of all values`)
	case object && r.layout.HasNames():
		return r.object(row)
	case object:
		return fmt.Errorf("an object: the model has no column names; send a list of the %d features", r.layout.Names.Columns())
	case row[0] == '"' && r.texts != "":
		r.begin()
		r.found = true
		return r.set(0, row)
	case r.texts != "":
		return expected("a text, or an object with the column " + strconv.Quote(r.texts))
	case r.layout.IsSparse():
		return expected("an object with a value for each column")
	case list:
		return r.list(row)
	}
	return expected("a row: a list of values, or an object of named values")
}

// begin adds a row without values to the block.
func (r *jsonRows) begin() {
	if c := &r.block.Columns[0]; r.layout.IsList() {
		n, k := len(c.Numbers), len(r.has)
		c.Numbers = slices.Grow(c.Numbers, k)[:n+k]
		for i := range c.Numbers[n:] {
			c.Numbers[n+i] = math.NaN()
		}
		c.Ends = append(c.Ends, n+k)
		return
	}
	for column := range r.block.Columns {
		r.block.Columns[column].AppendNull(!r.layout.IsNumber(column))
	}
}

// set sets the value of a column in the current row.
func (r *jsonRows) set(column int, cell value.Cell) (err error) {
	if r.layout.IsList() {
		list := r.block.Columns[0].Numbers
		list[len(list)-len(r.has)+column], err = r.layout.Number(cell)
		return err
	}
	c := &r.block.Columns[column]
	if r.layout.IsNumber(column) {
		c.Numbers[len(c.Numbers)-1], err = r.layout.Number(cell)
		return err
	}
	typed, last := tabular.JSON(cell), len(c.Texts)-1
	read := typed.Text
	if r.layout.IsText(column) {
		read = typed.Words
	}
	c.Texts[last], err = read()
	c.Nulls[last] = cell.Null()
	return err
}

// object reads a row that is an object.
func (r *jsonRows) object(row value.Cell) error {
	r.begin()
	if err := r.paths.Walk(jsonl.Nested(row), r.put); err != nil {
		return err
	}
	for column := range r.has {
		r.has[column] = r.paths.Has(column)
	}
	if err := r.lacks(r.has); err != nil {
		return err
	}
	r.note()
	return nil
}

// list reads a row that is a list.
func (r *jsonRows) list(row value.Cell) error {
	r.begin()
	if r.plain && r.wholes(row) {
		copy(r.has, r.listed)
		r.note()
		return nil
	}
	n := 0
	for cell := range row.All() {
		if n == len(r.order) {
			return fmt.Errorf("more than %d values", n)
		}
		if column := r.order[n]; column >= 0 {
			if err := r.set(column, cell); err != nil {
				return fmt.Errorf("value %d: %w", n, err)
			}
		}
		n++
	}
	if n < len(r.order) {
		return fmt.Errorf("%d values, expected %d", n, len(r.order))
	}
	copy(r.has, r.listed)
	r.note()
	return nil
}

// wholes reads a list of integers of up to seven digits, which are exact in float32, such as pixels. It reports false for another list.
func (r *jsonRows) wholes(row value.Cell) bool {
	list, at := r.block.Columns[0].Numbers, 1
	for i := len(list) - len(r.order); i < len(list); i++ {
		begin, whole := at, 0
		for ; row[at]-'0' <= 9; at++ {
			whole = 10*whole + int(row[at]-'0')
		}
		if n := at - begin; n == 0 || n > 7 || row[at] != ',' && i < len(list)-1 {
			return false
		}
		list[i] = float64(whole)
		at++
	}
	return at == len(row)
}

// note records the columns that the current row has and lacks.
func (r *jsonRows) note() {
	for column, has := range r.has {
		if has {
			r.found = true
		} else {
			r.lacked[column] = true
			r.missing++
		}
	}
}

// values reads a sparse row that is a list of all values.
func (r *jsonRows) values(row value.Cell) error {
	c, i := &r.block.Columns[0], int64(0)
	r.room(row)
	for cell := range row.All() {
		number := tabular.JSON(cell)
		v, err := number.Number(value.Missing{})
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
		if v != 0 {
			c.Indices, c.Numbers = append(c.Indices, i), append(c.Numbers, v)
		}
		i++
	}
	c.Ends = append(c.Ends, len(c.Numbers))
	return nil
}

// pairs reads a sparse row that is an object of two lists.
func (r *jsonRows) pairs(row value.Cell) error {
	c := &r.block.Columns[0]
	n := len(c.Numbers)
	indices, values, err := pairOf(row)
	if err != nil {
		return err
	}
	r.room(indices)
	r.room(values)
	for cell := range indices.All() {
		index, err := strconv.ParseInt(string(cell), 10, 64)
		if err != nil {
			return fmt.Errorf("index %.40s: expected a whole number from 0 to %d", cell, examples.MaxColumns-1)
		}
		c.Indices = append(c.Indices, index)
	}
	for cell := range values.All() {
		number := tabular.JSON(cell)
		v, err := number.Number(value.Missing{})
		if err != nil {
			return fmt.Errorf(`"values": element %d: %w`, len(c.Numbers)-n, err)
		}
		c.Numbers = append(c.Numbers, v)
	}
	if len(c.Indices) != len(c.Numbers) {
		return fmt.Errorf(`%d "indices" and %d "values", expected as many of both`, len(c.Indices)-n, len(c.Numbers)-n)
	}
	c.Ends = append(c.Ends, len(c.Numbers))
	return nil
}

// pairOf returns the indices and the values of a sparse row. Other members are ignored.
func pairOf(row value.Cell) (indices, values value.Cell, err error) {
	err = row.Each(func(name []byte, cell value.Cell) error {
		switch string(name) {
		case "indices":
			indices = cell
		case "values":
			values = cell
		default:
			return nil
		}
		if cell[0] != '[' {
			return fmt.Errorf("%q: %s: expected a list", name, cell)
		}
		return nil
	})
	return indices, values, err
}

// room makes room for the values of a long list, which would grow beyond what is reserved.
func (r *jsonRows) room(list value.Cell) {
	const few = 4096
	if c := &r.block.Columns[0]; len(list) > few {
		n := bytes.Count(list, []byte{','}) + 1
		c.Indices, c.Numbers = slices.Grow(c.Indices, n), slices.Grow(c.Numbers, n)
	}
}

// lacking implements rows.
func (r *jsonRows) lacking() (columns, all int) {
	for _, lacked := range r.lacked {
		if lacked {
			columns++
		}
	}
	return columns, r.missing
}

// features implements rows: a list has the names of its columns, a text that of its column, and a sparse row is an object of
// values by index.
func (r *jsonRows) features(dst []byte, i int) []byte {
	row := r.tile[i]
	switch {
	case row[0] == '[' && !r.layout.IsSparse():
		return answers.AppendNamed(dst, row, r.names)
	case row[0] == '"':
		name, _ := json.Marshal(r.texts) // a string can be encoded
		return append(append(append(append(append(dst, '{'), name...), ':'), row...), '}')
	case row[0] == '{' && r.layout.Sparse >= 0:
		indices, values, _ := pairOf(row) // pairs has read them
		return answers.AppendPairs(dst, indices, values)
	}
	return append(dst, row...)
}
