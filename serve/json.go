package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/serve/answers"
)

// The members of a request. Others are ignored. The rows come last of these, so they are read once.
const (
	keyRows    = "rows"
	keyColumns = "columns"
	keyTop     = "top"
	keyClasses = "classes"
)

// jsonRows are the rows of a JSON request: {"columns": […], "rows": […]}. A row is an object of named values, or a list of values,
// in the order of columns if present and otherwise in that of the model. A value is a number, a boolean, null if it is missing,
// or a text with a word or a number. An absent column is missing, if the model was trained with missing values.
//
// For a model on texts, a row may be a text. For one on sparse rows, which have no columns, a row is {"indices": […], "values":
// […]}, the nonzero features, or a list of all values.
type jsonRows struct {
	scanner
	*reader
	version *version
	known   value.Names       // members of the request
	texts   string            // column of texts, if rows may be texts; "": they may not
	order   []int             // column of the model for each value of a list; −1: none
	plain   bool              // the order is that of a list of numbers
	names   []json.RawMessage // of the values of a list, as JSON
	listed  []bool            // which columns lists have
	has     []bool            // which columns the current row has
	lacked  []bool            // columns that some rows lack
	missing int               // number of columns that rows lack, of all rows
	found   bool              // a row has one of the columns
	tile    [][]byte          // rows of the current tile, as sent
	count   int               // number of rows before them
	put     func(column int, of part) error
}

// newJSONRows reads the members before the rows. asks are the contents requested in headers.
func newJSONRows(body []byte, v *version, of *reader, asks *asked) (*jsonRows, error) {
	text, err := newScanner(body)
	if err != nil {
		return nil, err
	}
	l, k := of.layout, of.layout.Names.Columns()
	all := make([]bool, 3*k)
	r := &jsonRows{scanner: text, reader: of, version: v, names: of.names, has: all[:k], lacked: all[k : 2*k], listed: all[2*k:],
		plain: l.IsList(), order: make([]int, k)}
	for column := range r.order {
		r.order[column], r.listed[column] = column, true
	}
	if !l.IsMixed() && l.Text >= 0 {
		r.texts = string(l.Options.Text)
	}
	r.put = func(column int, of part) error {
		cell, err := of.read()
		if err == nil {
			err = r.set(column, cell)
		}
		if err != nil {
			err = fmt.Errorf("column %.40q: %w", l.List()[column], err)
		}
		return err
	}
	if err := r.expect('{'); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		key, there, err := r.member(first)
		switch {
		case err != nil:
			return nil, err
		case !there:
			return nil, r.errorf("no %q", keyRows)
		case key == keyRows:
			return r, r.expect('[')
		}
		if err := r.option(key, asks); err != nil {
			return nil, err
		}
	}
}

// member reads the name of the next member of the request, if there is one, and the colon.
func (r *jsonRows) member(first bool) (key string, there bool, err error) {
	if there, err = r.more('}', first); err != nil || !there {
		return "", false, err
	}
	quoted, err := r.string()
	if err != nil {
		return "", false, err
	}
	if err := r.once(&r.known, quoted.Name()); err != nil {
		return "", false, err
	}
	return string(quoted.Name()), true, r.expect(':')
}

// option reads the value of a member before the rows.
func (r *jsonRows) option(key string, asks *asked) error {
	cell, err := r.value()
	if err != nil {
		return err
	}
	switch key {
	case keyColumns:
		err = r.readColumns(cell)
	case keyTop:
		err = asks.setTop(string(cell))
	case keyClasses:
		err = asks.setClasses(string(cell))
	}
	if err != nil {
		err = fmt.Errorf("%q: %w", key, err)
	}
	return err
}

// finish reads the members after the rows, which can't change their meaning any more.
func (r *jsonRows) finish() error {
	for {
		key, there, err := r.member(false)
		switch {
		case err != nil:
			return err
		case key == keyColumns, key == keyTop, key == keyClasses:
			return refuse(http.StatusBadRequest, "%q comes after %q: send it before them%s", key, keyRows, headerOf(key))
		case there:
			if err := r.skip(); err != nil {
				return err
			}
		case r.peek() != 0 || r.at < len(r.text):
			return r.expected("nothing more")
		default:
			return nil
		}
	}
}

// reader reads rows into blocks, and these into features. It belongs to a version, and is not safe for concurrent use.
type reader struct {
	layout *layout.Request
	paths  *message.Paths[part]
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
	return &reader{layout: l, paths: message.NewPaths[part](names), names: examples.TextLabels.Values(names)}
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
	start := r.at
	err := r.all(most, tile)
	if err == nil {
		return r.finish()
	}
	// A member behind the rows may say why they can't be read.
	r.at = start
	if r.skipRest() == nil {
		if late, ok := errors.AsType[*refusal](r.finish()); ok {
			return late
		}
	}
	return err
}

// all reads all rows.
func (r *jsonRows) all(most int, tile func(*examples.Rows) error) error {
	for first := true; ; first = false {
		there, err := r.more(']', first)
		if err != nil {
			return err
		}
		if len(r.tile) == most || !there && len(r.tile) > 0 {
			if err := r.fill(tile); err != nil {
				return err
			}
		}
		if !there {
			break
		}
		r.peek()
		start := r.at
		if err := r.row(); err != nil {
			return fmt.Errorf("row %d: %w", r.count+len(r.tile), err)
		}
		r.tile = append(r.tile, r.text[start:r.at])
	}
	if names := r.layout.List(); names != nil && r.count > 0 && !r.found {
		return fmt.Errorf("%w: the request has none of the model's columns", r.layout.Lacks(make([]bool, len(names))))
	}
	return nil
}

// skipRest skips the rows that follow.
func (r *jsonRows) skipRest() error {
	for first := true; ; first = false {
		there, err := r.more(']', first)
		if err != nil || !there {
			return err
		}
		if err := r.skip(); err != nil {
			return err
		}
	}
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
func (r *jsonRows) row() error {
	c := r.peek()
	switch object, list := c == '{', c == '['; {
	case r.layout.Sparse >= 0 && object:
		return r.pairs()
	case r.layout.Sparse >= 0 && list:
		return r.values()
	case r.layout.Sparse >= 0:
		return r.expected(`an object with "indices" and "values", or a list of all values`)
	case object && r.layout.HasNames():
		return r.object()
	case object:
		return r.errorf("an object: the model has no column names; send a list of the %d features", r.layout.Names.Columns())
	case c == '"' && r.texts != "":
		r.begin()
		cell, err := r.string()
		if err != nil {
			return err
		}
		r.found = true
		return r.set(0, cell)
	case r.texts != "":
		return r.expected("a text, or an object with the column " + strconv.Quote(r.texts))
	case r.layout.IsSparse():
		return r.expected("an object with a value for each column")
	case list:
		return r.list()
	}
	return r.expected("a row: a list of values, or an object of named values")
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
		c := &r.block.Columns[column]
		switch {
		case r.layout.IsNumber(column):
			c.Numbers = append(c.Numbers, math.NaN())
		case r.layout.IsText(column):
			c.Ends, c.NoLists = append(c.Ends, len(c.Texts)), append(c.NoLists, true)
		default:
			c.Texts, c.Nulls = append(c.Texts, ""), append(c.Nulls, true)
		}
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
	switch {
	case r.layout.IsNumber(column):
		c.Numbers[len(c.Numbers)-1], err = r.layout.Number(cell)
	case r.layout.IsText(column):
		from, row := 0, len(c.Ends)-1
		if row > 0 {
			from = c.Ends[row-1]
		}
		c.Texts, c.Nulls = c.Texts[:from], c.Nulls[:from]
		if !cell.Null() && cell[0] != '[' {
			err = addText(c, cell)
		}
		for item := range cell.All() {
			if err == nil {
				err = addText(c, item)
			}
		}
		c.Ends[row], c.NoLists[row] = len(c.Texts), cell.Null()
	default:
		last := len(c.Texts) - 1
		c.Texts, c.Nulls = c.Texts[:last], c.Nulls[:last]
		err = addText(c, cell)
	}
	return err
}

// addText adds a text, or the word of a number or a boolean.
func addText(c *tabular.Column, cell value.Cell) error {
	text, err := cell.Text()
	c.Texts, c.Nulls = append(c.Texts, text), append(c.Nulls, cell.Null())
	return err
}

// object reads a row that is an object.
func (r *jsonRows) object() error {
	r.begin()
	if err := r.paths.Walk(part{&r.scanner, r.at}, r.put); err != nil {
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
func (r *jsonRows) list() error {
	r.begin()
	var numbers []float64
	if r.plain {
		all := r.block.Columns[0].Numbers
		numbers = all[len(all)-len(r.order):]
	}
	n := 0
	err := r.elements(func(i int) error {
		n++
		if i >= len(r.order) {
			return r.errorf("more than %d values", len(r.order))
		}
		r.peek()
		if r.plain {
			if v, ok := r.integer(); ok {
				numbers[i] = v
				return nil
			}
		}
		cell, err := r.value()
		if err == nil && r.order[i] >= 0 {
			err = r.set(r.order[i], cell)
		}
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
		return nil
	})
	if err == nil && n < len(r.order) {
		err = r.errorf("%d values, expected %d", n, len(r.order))
	}
	copy(r.has, r.listed)
	r.note()
	return err
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
func (r *jsonRows) values() error {
	c := &r.block.Columns[0]
	r.room()
	err := r.elements(func(i int) error {
		v, err := r.float()
		if err == nil && v != 0 {
			c.Indices, c.Numbers = append(c.Indices, int64(i)), append(c.Numbers, v)
		}
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
		return nil
	})
	c.Ends = append(c.Ends, len(c.Numbers))
	return err
}

// float reads a number or a boolean.
func (r *jsonRows) float() (float64, error) {
	cell, err := r.value()
	if err != nil {
		return 0, err
	}
	return cell.Number(value.Missing{})
}

// pairs reads a sparse row that is an object of two lists. Unknown members are ignored.
func (r *jsonRows) pairs() error {
	c := &r.block.Columns[0]
	indices, values := len(c.Indices), len(c.Numbers)
	r.room()
	var names value.Names
	err := r.members(func(name []byte) error {
		if err := r.once(&names, name); err != nil {
			return err
		}
		var add func() error
		switch string(name) {
		case "indices":
			add = func() error {
				cell, err := r.value()
				if err != nil {
					return err
				}
				index, err := strconv.ParseInt(string(cell), 10, 64)
				if err != nil {
					return r.errorf("index %.40s: expected a whole number from 0 to %d", cell, examples.MaxColumns-1)
				}
				c.Indices = append(c.Indices, index)
				return nil
			}
		case "values":
			add = func() error {
				v, err := r.float()
				c.Numbers = append(c.Numbers, v)
				return err
			}
		default:
			return r.skip()
		}
		return r.elements(func(i int) error {
			if err := add(); err != nil {
				return fmt.Errorf("%q: element %d: %w", name, i, err)
			}
			return nil
		})
	})
	if indices, values = len(c.Indices)-indices, len(c.Numbers)-values; err == nil && indices != values {
		err = r.errorf(`%d "indices" and %d "values", expected as many of both`, indices, values)
	}
	c.Ends = append(c.Ends, len(c.Numbers))
	return err
}

// room makes room for all values of a body with a long row, which would grow beyond what is reserved.
func (r *jsonRows) room() {
	const few = 4096
	rest := r.text[r.at:]
	if c := &r.block.Columns[0]; len(rest) > few && bytes.IndexByte(rest[:few], ']') < 0 {
		n := bytes.Count(rest, []byte{','}) + 1
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
		return answers.AppendNamed(dst, value.Cell(row), r.names)
	case row[0] == '"':
		name, _ := json.Marshal(r.texts) // a string can be encoded
		return append(append(append(append(append(dst, '{'), name...), ':'), row...), '}')
	case row[0] == '{' && r.layout.Sparse >= 0:
		var indices, values value.Cell
		_ = value.Cell(row).Members(func(name string, of value.Cell) error { // pairs has read it
			switch name {
			case "indices":
				indices = of
			case "values":
				values = of
			}
			return nil
		})
		return answers.AppendPairs(dst, indices, values)
	}
	return append(dst, row...)
}
