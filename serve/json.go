package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/serve/answers"
	"github.com/stagewise/stagewise/serve/jsonscan"
)

// jsonRows reads the rows of a request into blocks: {"columns": […], "rows": […]}. A row is an object of named values, or a list
// of values, in the order of columns if present and otherwise in that of the model. A value is a number, a boolean, null if it is
// missing, or a text with a word or a number. An absent column is missing, if the model was trained with missing values.
//
// For a model on texts, a row may be a text. For one on sparse rows, which have no columns, a row is {"indices": […], "values":
// […]}, the nonzero features, or a list of all values: these are read as they are.
type jsonRows struct {
	document
	layout  *layout.Request
	missing bool              // missing values are allowed
	text    string            // column of texts, if rows may be texts; "": they may not
	order   []int             // column of the model for each value of a list; −1: none
	absent  []int             // columns of the model that are not in lists
	plain   bool              // each value of a list is the next of a list of numbers
	names   []json.RawMessage // of the values of a list, as JSON
	dense   bool              // rows may be lists, since columns have an order

	work *workspace // of the current rows
	put  func(column int) error
}

// newJSONRows reads the members before the rows.
func newJSONRows(body []byte, l *layout.Request, names []json.RawMessage, asks *asked) (*jsonRows, error) {
	text, err := jsonscan.New(body)
	if err != nil {
		return nil, err
	}
	r := &jsonRows{layout: l, missing: l.Options.Missing.Mode != layout.MissingError, names: names, dense: !l.IsSparse()}
	r.document = document{Scanner: text, asks: asks, list: r.readColumns, columns: &columns{}}
	r.put = r.value
	switch {
	case l.IsMixed(), r.dense:
		r.columns = newColumns(l.Names)
	case l.Text >= 0:
		r.columns, r.text = newColumns(l.Names), string(l.Options.Text)
	}
	r.order = make([]int, l.Names.Columns())
	for i := range r.order {
		r.order[i] = i
	}
	r.plain = l.IsList()
	return r, r.open()
}

// readColumns reads the list of the columns.
func (r *jsonRows) readColumns() (changed bool, err error) {
	switch {
	case !r.dense:
		return false, r.Errorf(`"columns": the model was trained on sparse rows, which have none`)
	case !r.layout.HasNames():
		return false, r.Errorf(`"columns": the model has no column names; `+
			`omit it, and send the %d features in order`, r.layout.Names.Columns())
	}
	before := r.order
	r.order, r.absent, r.names = nil, nil, nil
	clear(r.columns.has)
	var others jsonscan.Names
	err = r.Elements(func(int) error {
		name, err := r.String()
		if err != nil {
			return err
		}
		column, err := r.find(name, &others)
		r.order = append(r.order, column)
		text, _ := json.Marshal(string(name)) // which is JSON
		r.names = append(r.names, text)
		return err
	})
	if err != nil {
		return false, err
	}
	changed = !slices.Equal(before, r.order)
	r.plain = r.plain && !changed
	r.absent = r.columns.absent()
	if len(r.absent) > 0 && !r.missing {
		return false, r.layout.Lacks(r.columns.has)
	}
	return changed, nil
}

// read reads up to most rows into the block of a workspace, and returns their number.
func (r *jsonRows) read(work *workspace, most int) (n int, err error) {
	r.work = work
	work.block.Reset(len(r.layout.Cells))
	clear(work.cells)
	work.cells = work.cells[:0]
	work.sparse.Reset()
	for first := r.count; n < most; n++ {
		there, err := r.row()
		if err != nil {
			return n, err
		}
		if !there {
			break
		}
		if err := r.next(); err != nil {
			return n, fmt.Errorf("row %d: %w", first+n, err)
		}
		r.rowEnds()
	}
	work.block.Rows = n
	for width := len(r.layout.Cells); len(work.block.Cells) < len(work.cells)/width; {
		at := len(work.block.Cells) * width
		work.block.Cells = append(work.block.Cells, work.cells[at:at+width])
	}
	if r.layout.Sparse >= 0 {
		return n, nil
	}
	rows := examples.Rows{Floats: work.features[:0], Sparse: &work.sparse}
	if troubles := r.layout.Fill(&work.block, &rows); troubles != nil {
		t := troubles[0]
		if names := r.layout.List(); names != nil && r.text == "" {
			return n, fmt.Errorf("row %d: column %.40q: %w", r.count-n+t.Row, names[t.Column], t.Err)
		}
		return n, fmt.Errorf("row %d: %w", r.count-n+t.Row, t.Err)
	}
	work.features = rows.Floats
	return n, nil
}

// next reads the next row.
func (r *jsonRows) next() error {
	switch c := r.Peek(); {
	case r.layout.Sparse >= 0 && c == '{':
		return r.pairs(&r.work.sparse)
	case r.layout.Sparse >= 0 && c == '[':
		return r.values(&r.work.sparse)
	case r.layout.Sparse >= 0:
		return r.Expected(`an object with "indices" and "values", or a list of all values`)
	}
	r.begin()
	switch c := r.Peek(); {
	case c == '"' && r.text != "":
		r.columns.found = true
		return r.value(0)
	case c == '{' && r.text != "":
		return r.textObject()
	case r.text != "":
		return r.Expected("a text, or an object with the column " + strconv.Quote(r.text))
	case c == '{':
		return r.object()
	case c == '[' && r.dense:
		return r.listed()
	case r.dense:
		return r.Expected("a row: a list of values, or an object of named values")
	}
	return r.Expected("an object with a value for each column")
}

// begin appends a row without values to the block.
func (r *jsonRows) begin() {
	if !r.layout.IsList() {
		r.work.cells = append(r.work.cells, make([]tabular.Cell, len(r.layout.Cells))...)
		return
	}
	list := &r.work.block.Columns[0]
	n, width := len(list.Numbers), r.layout.Names.Columns()
	list.Numbers = slices.Grow(list.Numbers, width)[:n+width]
	list.Ends = append(list.Ends, len(list.Numbers))
	if !r.plain {
		for i := range list.Numbers[n:] {
			list.Numbers[n+i] = math.NaN()
		}
	}
}

// sent appends a row as sent: a list with the names of its columns, a text with the name of its column, and two lists as an
// object of values by index.
func (r *jsonRows) sent(dst, row []byte) []byte {
	switch {
	case r.dense && row[0] == '[':
		return answers.AppendNamed(dst, row, r.names)
	case r.text != "" && row[0] == '"':
		name, _ := json.Marshal(r.text) // a string can be encoded
		return append(append(append(append(append(dst, '{'), name...), ':'), row...), '}')
	case r.layout.Sparse >= 0 && row[0] == '{':
		var pairs struct{ Indices, Values json.RawMessage }
		if json.Unmarshal(row, &pairs) == nil {
			return answers.AppendPairs(dst, pairs.Indices, pairs.Values)
		}
	}
	return append(dst, row...)
}

// listed reads a row that is a list. It has a loop of its own: with elements a request takes a twentieth longer.
func (r *jsonRows) listed() error {
	r.At++
	var numbers []float64
	if r.plain {
		all := r.work.block.Columns[0].Numbers
		numbers = all[len(all)-len(r.order):]
	}
	for i := 0; ; i++ {
		there, err := r.More(']', i == 0)
		if err != nil {
			return err
		}
		if !there {
			if i != len(r.order) {
				return r.Errorf("%d values, expected %d", i, len(r.order))
			}
			r.columns.lacks(r.absent)
			return nil
		}
		if i >= len(r.order) {
			return r.Errorf("more than %d values", len(r.order))
		}
		c := r.Peek()
		switch {
		case r.plain && (c-'0' <= 9 || c == '-'):
			numbers[i], err = r.Float()
		case r.plain:
			numbers[i], err = r.number()
		case r.order[i] < 0:
			err = r.Skip()
		default:
			err = r.value(r.order[i])
		}
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
	}
}

// object reads a row that is an object.
func (r *jsonRows) object() error {
	if !r.layout.HasNames() {
		return r.Errorf("an object: the model has no column names; send a list of the %d features", r.layout.Names.Columns())
	}
	if r.layout.IsList() { // which may lack some
		list := r.work.block.Columns[0].Numbers
		for i := range r.layout.Names.Columns() {
			list[len(list)-1-i] = math.NaN()
		}
	}
	if err := r.document.object(r.put); err != nil {
		return err
	}
	absent := r.columns.absent()
	if len(absent) > 0 && !r.missing {
		return r.layout.Lacks(r.columns.has)
	}
	r.columns.lacks(absent)
	return nil
}

// textObject reads a row that is an object with the column of texts.
func (r *jsonRows) textObject() error {
	if err := r.document.object(r.put); err != nil {
		return err
	}
	if !r.columns.has[0] {
		return r.Errorf("no %.40q, the column of texts", r.text)
	}
	r.columns.found = true
	return nil
}

// value reads a value of a column in the current row.
func (r *jsonRows) value(column int) (err error) {
	width := r.layout.Names.Columns()
	if r.layout.IsList() {
		list := r.work.block.Columns[0].Numbers
		list[len(list)-width+column], err = r.number()
		return err
	}
	cell := &r.work.cells[len(r.work.cells)-width+column]
	switch {
	case r.layout.IsText(column) && r.Peek() == '[':
		var items []tabular.Cell
		err = r.Elements(func(int) error {
			item, err := r.scalar()
			items = append(items, item)
			return err
		})
		*cell = tabular.Items(items)
	case r.layout.IsNumber(column) && r.Peek() != '"' && r.Peek() != 't' && r.Peek() != 'f':
		var v float64
		v, err = r.number()
		*cell = tabular.Float(v)
	default:
		if *cell, err = r.scalar(); err == nil && cell.Null() && !r.layout.IsText(column) {
			err = r.layout.CheckMissing("a missing value")
		}
	}
	return err
}

// number reads a number, a boolean, a text with either, or null.
func (r *jsonRows) number() (float64, error) {
	switch c := r.Peek(); {
	case c == '"':
		text, err := r.String()
		if err != nil {
			return 0, err
		}
		v, err := r.layout.Number(string(text))
		if err == nil && v != v {
			err = r.layout.CheckMissing("a missing value")
		}
		return v, err
	case c == 'n' && r.Null():
		return math.NaN(), r.layout.CheckMissing("a missing value")
	}
	return r.Float()
}

// scalar reads a text, a number or a boolean; the zero value for null.
func (r *jsonRows) scalar() (tabular.Cell, error) {
	switch c := r.Peek(); {
	case c == '"':
		text, err := r.String()
		return tabular.Word(string(text)), err
	case c == 'n' && r.Null():
		return tabular.Cell{}, nil
	case c == 't', c == 'f':
		if v, ok := r.Boolean(); ok {
			return tabular.Truth(v), nil
		}
	case c == '-', c >= '0' && c <= '9':
		text, err := r.Number()
		return tabular.JSON(value.Cell(text)), err
	}
	return tabular.Cell{}, r.Expected("a number, a text, a boolean or null")
}

// Keys of a sparse row that is an object.
const (
	keyIndices = "indices"
	keyValues  = "values"
)

// values appends a row that is a list of all values.
func (r *jsonRows) values(rows *examples.SparseRows) error {
	err := r.Elements(func(i int) error {
		v, err := r.Float()
		switch {
		case err != nil:
			return fmt.Errorf("value %d: %w", i, err)
		case v != 0 && i >= examples.MaxColumns:
			return r.Errorf("more than %d values", examples.MaxColumns)
		}
		rows.Append(int32(i), float32(v))
		return nil
	})
	rows.End()
	return err
}

// pairs appends a row that is an object of two lists. Unknown keys are ignored.
func (r *jsonRows) pairs(rows *examples.SparseRows) error {
	var has jsonscan.Names
	from := len(rows.Values)
	err := r.Members(func(name []byte) error {
		key := string(name)
		err := r.Once(&has, "key", name)
		if err != nil {
			return err
		}
		if err := r.Expect(':'); err != nil {
			return err
		}
		switch key {
		case keyIndices:
			err = r.readIndices(rows, from)
		case keyValues:
			err = r.readValues(rows)
		default:
			err = r.Skip()
		}
		if err != nil {
			return fmt.Errorf("%.40q: %w", key, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !has[keyIndices] || !has[keyValues] || len(rows.Indices) != len(rows.Values):
		return r.Errorf(`%d "indices" and %d "values", expected as many of both`, len(rows.Indices)-from, len(rows.Values)-from)
	}
	indices, values := rows.Indices[from:], rows.Values[from:]
	rows.Indices, rows.Values = rows.Indices[:from], rows.Values[:from]
	for i, v := range values {
		rows.Append(indices[i], v) // without zeros
	}
	rows.End()
	return nil
}

// readIndices appends a list of indices, each of which must exceed the previous one. from is where those of the row start.
func (r *jsonRows) readIndices(rows *examples.SparseRows, from int) error {
	return r.Elements(func(i int) error {
		text, err := r.Number()
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		index, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, r.Errorf("index %.40s: expected a whole number from 0 to %d", text, examples.MaxColumns-1))
		}
		before := int64(-1)
		if n := len(rows.Indices); n > from {
			before = int64(rows.Indices[n-1])
		}
		if err := examples.CheckIndex(index, before); err != nil {
			return fmt.Errorf("element %d: %w", i, r.Errorf("%v", err))
		}
		rows.Indices = append(rows.Indices, int32(index))
		return nil
	})
}

// readValues appends a list of values.
func (r *jsonRows) readValues(rows *examples.SparseRows) error {
	return r.Elements(func(i int) error {
		v, err := r.Float()
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		rows.Values = append(rows.Values, float32(v))
		return nil
	})
}
