package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// rows are the rows of a request.
type rows interface {
	// read calls tile with the features of up to most rows, which are valid during the call, until it has read all rows.
	read(most int, tile func(*examples.Rows) error) error
	// features appends the features of row i of the tile, as JSON. It is called for each of them, in order.
	features(dst []byte, i int) []byte
	// lacking returns the number of columns of the model that rows lack, and their number summed over the rows.
	lacking() (columns, all int)
}

// open returns the rows of a body.
func (p *prediction) open(ctx context.Context, body []byte) (rows, error) {
	switch p.sent {
	case typeArrow:
		return p.batches(ctx, arrow.Sent{Stream: body}), nil
	case openInference:
		record, err := p.tensors(body)
		if err != nil {
			return nil, err
		}
		return p.batches(ctx, arrow.Sent{Record: record}), nil
	}
	r, err := p.reader()
	if err != nil {
		return nil, err
	}
	f, err := frameOf(body, p.sent, &p.asks)
	if err == nil && f.lists != nil {
		err = p.transpose(&f, r.layout)
	}
	if err != nil {
		return nil, err
	}
	return newJSONRows(f, r, p.keep)
}

// batches returns the rows of Arrow columns.
func (p *prediction) batches(ctx context.Context, of arrow.Sent) rows {
	want := layout.Features{Width: p.Width(), Columns: p.Columns(), Sparse: p.Sparse()}
	return &batchRows{batches: of.Batches(ctx, "the request", p.unpack, p.version.options, want),
		texts: of.JSON(func(add arrow.Unpacked) error { return p.unpackAgain(add.Buffers) })}
}

// batchRows are the rows of Arrow columns.
type batchRows struct {
	batches iter.Seq2[*examples.Rows, error]
	texts   iter.Seq[[]byte]      // the rows as JSON
	text    func() ([]byte, bool) // the next of them
}

// read implements rows.
func (r *batchRows) read(most int, tile func(*examples.Rows) error) error {
	text, stop := iter.Pull(r.texts)
	defer stop()
	r.text = text
	for batch, err := range r.batches {
		if err != nil {
			return err
		}
		for from := 0; from < batch.Rows; from += most {
			if err := tile(batch.Slice(from, min(from+most, batch.Rows))); err != nil {
				return err
			}
		}
	}
	return nil
}

// features implements rows.
func (r *batchRows) features(dst []byte, _ int) []byte {
	if text, ok := r.text(); ok {
		return append(dst, text...)
	}
	return append(dst, "null"...)
}

// lacking implements rows: a batch has all columns, or is refused.
func (r *batchRows) lacking() (columns, all int) { return 0, 0 }

// The members of a request. Others are ignored.
const (
	keyRows    = "rows"
	keyColumns = "columns"
	keyTop     = "top"
	keyClasses = "classes"

	keyContributions = "contributions"
)

// members reads the members of an object by their names. It ignores others, and refuses an object that has a member twice.
type members map[string]func(value.Cell) error

func (m members) read(object value.Cell) error {
	return object.Each(func(name []byte, cell value.Cell) error {
		read := m[string(name)]
		if read == nil {
			return nil
		}
		if err := read(cell); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	})
}

// keep returns a function that keeps a value.
func keep[T ~[]byte](to *T) func(T) error {
	return func(value T) error {
		*to = value
		return nil
	}
}

// keepText returns a function that keeps a text.
func keepText(to *string) func(value.Cell) error {
	return func(cell value.Cell) (err error) {
		*to, err = textOf(cell)
		return err
	}
}

// textOf returns the text of a JSON string.
func textOf(cell value.Cell) (string, error) {
	if cell.Null() || cell[0] != '"' {
		return "", fmt.Errorf("%s: expected a text", cell)
	}
	return string(cell.Name()), nil
}

// keepTruth returns a function that keeps a boolean.
func keepTruth(to *bool) func(value.Cell) error {
	return func(cell value.Cell) error {
		if *to = string(cell) == "true"; !*to && string(cell) != "false" {
			return fmt.Errorf("%s: expected true or false", cell)
		}
		return nil
	}
}

// parse returns the object in a body.
func parse(body []byte) (value.Cell, error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // as for files
	return value.Cell(bytes.TrimSpace(body)), value.CheckJSON(body)
}

// frame is the rows of a request as JSON, and the list of the names of their columns. Nil columns mean that the columns have no names.
type frame struct {
	rows    iter.Seq[value.Cell]
	lists   value.Cell // an object that has a list of values for each column, in place of rows
	columns value.Cell
}

// list sets the rows to those of a list.
func (f *frame) list(cell value.Cell) error {
	if f.rows = cell.All(); cell[0] != '[' {
		return fmt.Errorf("%s: expected a list of rows", cell)
	}
	return nil
}

// frameOf returns the rows in a body of a content type or protocol, and sets the contents of the answer that the body asks for.
func frameOf(body []byte, sent string, asks *asked) (f frame, err error) {
	object, err := parse(body)
	if err != nil {
		return f, err
	}
	if sent == mlflow {
		err = f.readMLflow(object)
	} else {
		err = members{keyRows: f.list, keyColumns: keep(&f.columns), keyTop: keepNumber(&asks.top, "a number of labels"),
			keyClasses: keepTruth(&asks.classes), keyContributions: keepNumber(&asks.contributions, "a number of columns")}.read(object)
	}
	if err == nil && f.rows == nil && f.lists == nil {
		err = fmt.Errorf("no %q", keyRows)
	}
	return f, err
}

// readMLflow reads a request of MLflow: one of "dataframe_split", "dataframe_records", "instances" and "inputs". Names of columns that are
// numbers, as pandas numbers columns without names, do not count as names.
func (f *frame) readMLflow(object value.Cell) error {
	found := 0
	whole := func(cell value.Cell) error {
		if found++; cell[0] == '{' {
			f.lists = cell
			return nil
		}
		return f.list(cell)
	}
	err := members{"dataframe_records": whole, "instances": whole, "inputs": whole, "dataframe_split": func(cell value.Cell) error {
		found++
		return members{"data": f.list, keyColumns: func(cell value.Cell) error {
			if bytes.IndexByte(cell, '"') >= 0 {
				f.columns = cell
			}
			return nil
		}}.read(cell)
	}}.read(object)
	if err == nil && found != 1 {
		err = fmt.Errorf(`%d of "dataframe_split", "dataframe_records", "instances" and "inputs": expected one`, found)
	}
	return err
}

// transpose sets the rows to those of the lists of values for each column, for which it reserves memory. If there is a single column, which
// is not a column of the model and has lists, the lists are the rows.
func (p *prediction) transpose(f *frame, l *layout.Request) error {
	var names []string
	var columns [][]value.Cell
	err := f.lists.Each(func(name []byte, column value.Cell) error {
		n := 0
		for range column.All() {
			n++
		}
		switch {
		case n == 0:
			return fmt.Errorf("column %.40q: %s: expected a list of values", name, column)
		case len(columns) > 0 && n != len(columns[0]):
			return fmt.Errorf("column %.40q: %d values, another has %d", name, n, len(columns[0]))
		case n > p.Server.options.MaxRows:
			return p.manyRows()
		}
		if err := p.unpackAgain(itemBytes * n); err != nil {
			return err
		}
		names, columns = append(names, string(name)), append(columns, slices.AppendSeq(make([]value.Cell, 0, n), column.All()))
		return nil
	})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("no inputs")
	}
	if _, known := l.Find(names[0]); len(names) == 1 && !known && columns[0][0][0] == '[' {
		f.rows = slices.Values(columns[0])
		return nil
	}
	if l.Names != nil { // otherwise they are in order
		f.columns, _ = json.Marshal(names) // strings can be encoded
	}
	f.rows = func(yield func(value.Cell) bool) {
		for i := range columns[0] {
			row := value.Cell{}
			for j, column := range columns {
				row = append(append(row, "[,"[min(j, 1)]), only(column[i])...)
			}
			if !yield(append(row, ']')) {
				return
			}
		}
	}
	return nil
}

// only returns the value in a list of one, as tensors of shape [rows, 1] have, and otherwise the cell.
func only(cell value.Cell) value.Cell {
	one := cell
	n := 0
	for one = range cell.All() {
		if n++; n > 1 {
			return cell
		}
	}
	return one
}

// jsonRows are the rows of a JSON request: {"columns": […], "rows": […]}. A row is an object of named values, or a list of values,
// in the order of columns if present and otherwise in that of the model. A value is a number, a boolean, null if it is missing,
// or a text with a word or a number. An absent column is missing, if the model was trained with missing values.
//
// For a model on texts, a row may be a text. For one on sparse rows, which have no columns, a row is {"indices": […], "values":
// […]}, the nonzero features, or a list of all values.
type jsonRows struct {
	*reader
	done    func(*reader)
	rows    iter.Seq[value.Cell]
	texts   string            // column of texts, if rows may be texts; "": they may not
	order   []int             // column of the model for each value of a list; −1: none
	named   bool              // the request names the columns of lists
	names   []json.RawMessage // of the values of a list, as JSON
	listed  []bool            // which columns lists have
	has     []bool            // which columns the current row has
	lacked  []bool            // columns that some rows lack
	missing int               // number of columns that rows lack, of all rows
	found   bool              // a row has one of the columns
	tile    []value.Cell      // rows of the current tile
	count   int               // number of rows before them
	numbers []float64         // features of the current row, if the layout is a list of them
	cells   []tabular.Cell    // and otherwise its values
}

// newJSONRows returns the rows of a request. done is called when they are read.
func newJSONRows(f frame, of *reader, done func(*reader)) (*jsonRows, error) {
	l, k := of.layout, of.layout.Columns()
	all := make([]bool, 3*k)
	r := &jsonRows{reader: of, done: done, rows: f.rows, names: of.names, has: all[:k], lacked: all[k : 2*k], listed: all[2*k:],
		named: f.columns != nil, order: make([]int, k)}
	for column := range r.order {
		r.order[column], r.listed[column] = column, true
	}
	if !l.IsMixed() && l.Text >= 0 {
		r.texts = string(l.Options.Text)
	}
	if r.named {
		if err := r.readColumns(f.columns); err != nil {
			return nil, fmt.Errorf("%q: %w", keyColumns, err)
		}
	}
	return r, nil
}

// reader reads rows into blocks, and these into features. It belongs to a version, and is not safe for concurrent use.
type reader struct {
	layout *layout.Request
	paths  *tabular.Paths
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
		return nil, refuse(http.StatusInternalServerError, "%v", err)
	}
	return newReader(l), nil
}

func newReader(l *layout.Request) *reader {
	names := l.Names
	return &reader{layout: l, paths: tabular.NewPaths(names), names: examples.TextLabels.Values(names)}
}

// keep puts a reader into the readers of the version, unless its rows may have taken much memory.
func (p *prediction) keep(r *reader) {
	if r.block.Cells = nil; p.held.bytes <= smallBytes {
		p.readers.Put(r)
	}
}

// read implements rows.
func (r *jsonRows) read(most int, tile func(*examples.Rows) error) error {
	defer r.done(r.reader)
	r.block.Reset(len(r.layout.Cells))
	for row := range r.rows {
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
	if names := r.layout.Names; names != nil && r.count > 0 && !r.found {
		return fmt.Errorf("%w: the request has none of the model's columns", r.layout.Lacks(make([]bool, len(names))))
	}
	return nil
}

// readColumns reads the list of the columns.
func (r *jsonRows) readColumns(list value.Cell) error {
	var names []string
	switch err := json.Unmarshal(list, &names); {
	case r.layout.Sparse >= 0:
		return errors.New("the model was trained on sparse rows, which have none")
	case r.layout.Names == nil:
		return fmt.Errorf("the model has no column names; omit it, and send the %d features in order", r.layout.Columns())
	case err != nil:
		return fmt.Errorf("%s: expected a list of names", list)
	}
	var seen value.Names
	r.order, r.names = nil, examples.TextLabels.Values(names)
	clear(r.listed)
	for _, name := range names {
		if seen.Has([]byte(name)) {
			return fmt.Errorf("duplicate column %.40q", name)
		}
		column, known := r.layout.Find(name)
		if known {
			r.listed[column] = true
		} else {
			column = -1
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
	r.filled.Reset()
	if troubles := r.layout.Fill(&r.block, &r.filled); troubles != nil {
		t := troubles[0]
		if names := r.layout.Names; names != nil && r.texts == "" {
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
	case r.layout.Sparse >= 0 && (object || list):
		return r.entries(row)
	case r.layout.Sparse >= 0:
		return expected(`an object with "indices" and "values", or a list of all values`)
	case object && r.layout.Names != nil:
		return r.object(row)
	case object:
		return fmt.Errorf("an object: the model has no column names; send a list of the %d features", r.layout.Columns())
	case row[0] == '"' && r.texts != "":
		r.begin()
		r.found = true
		return r.set(0, tabular.JSON(row))
	case list && (r.named || !r.layout.IsSparse()):
		return r.list(row)
	case r.texts != "":
		return expected("a text, or an object with the column " + strconv.Quote(r.texts))
	case r.layout.IsSparse():
		return expected("an object with a value for each column")
	}
	return expected("a row: a list of values, or an object of named values")
}

// begin adds a row without values to the block.
func (r *jsonRows) begin() {
	k := len(r.has)
	if !r.layout.IsList() {
		r.cells = r.block.Add(k)
		return
	}
	r.numbers = slices.Repeat([]float64{math.NaN()}, k)
	r.block.Add(1)[0] = tabular.Numbers(nil, r.numbers)
}

// set sets the value of a column in the current row.
func (r *jsonRows) set(column int, cell tabular.Cell) (err error) {
	if r.layout.IsList() {
		r.numbers[column], err = r.layout.Number(cell)
		return err
	}
	r.cells[column] = cell
	return nil
}

// object reads a row that is an object.
func (r *jsonRows) object(row value.Cell) error {
	r.begin()
	err := r.paths.Walk(tabular.JSON(row), func(column int, cell tabular.Cell) error {
		if err := r.set(column, cell); err != nil {
			return fmt.Errorf("column %.40q: %w", r.layout.Names[column], err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for column := range r.has {
		r.has[column] = r.paths.Has(column)
	}
	r.note()
	return r.lacks(r.has)
}

// list reads a row that is a list.
func (r *jsonRows) list(row value.Cell) error {
	r.begin()
	copy(r.has, r.listed)
	r.note()
	if !r.named && r.layout.IsList() && r.wholes(row) {
		return nil
	}
	n := 0
	for cell := range row.All() {
		if n == len(r.order) {
			return fmt.Errorf("more than %d values", n)
		}
		if column := r.order[n]; column >= 0 {
			if err := r.set(column, tabular.JSON(cell)); err != nil {
				return fmt.Errorf("value %d: %w", n, err)
			}
		}
		n++
	}
	if n < len(r.order) {
		return fmt.Errorf("%d values, expected %d", n, len(r.order))
	}
	return nil
}

// wholes reads a list of integers of up to seven digits, which are exact in float32, such as pixels. It reports false for another list.
func (r *jsonRows) wholes(row value.Cell) bool {
	at := 1
	for i := range r.numbers {
		begin, whole := at, 0
		for ; row[at]-'0' <= 9; at++ {
			whole = 10*whole + int(row[at]-'0')
		}
		if n := at - begin; n == 0 || n > 7 || row[at] != ',' && i < len(r.numbers)-1 {
			return false
		}
		r.numbers[i] = float64(whole)
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

// entries reads a sparse row: an object of two lists, or a list of all values, of which it keeps the nonzero ones.
func (r *jsonRows) entries(row value.Cell) error {
	all := row[0] == '['
	indices, values := value.Cell(nil), row
	if !all {
		var err error
		if indices, values, err = pairOf(row); err != nil {
			return err
		}
	}
	at, numbers := make([]int64, 0, lengthOf(row)), make([]float64, 0, lengthOf(row))
	for cell := range indices.All() {
		index, err := strconv.ParseInt(string(cell), 10, 64)
		if err != nil {
			return fmt.Errorf("index %.40s: expected a whole number from 0 to %d", cell, examples.MaxColumns-1)
		}
		at = append(at, index)
	}
	i := int64(0)
	for cell := range values.All() {
		number := tabular.JSON(cell)
		v, err := number.Number(value.Missing{})
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
		if !all {
			numbers = append(numbers, v)
		} else if v != 0 {
			at, numbers = append(at, i), append(numbers, v)
		}
		i++
	}
	if len(at) != len(numbers) {
		return fmt.Errorf(`%d "indices" and %d "values", expected as many of both`, len(at), len(numbers))
	}
	r.block.Add(1)[0] = tabular.Numbers(at, numbers)
	return nil
}

// lengthOf bounds the number of values in a long row, so that a block does not grow beyond what is reserved. It is 0 for a short one.
func lengthOf(row value.Cell) int {
	const few = 4096
	if len(row) <= few {
		return 0
	}
	return bytes.Count(row, []byte{','}) + 1
}

// pairOf returns the indices and the values of a sparse row. Other members are ignored.
func pairOf(row value.Cell) (indices, values value.Cell, err error) {
	list := func(to *value.Cell) func(value.Cell) error {
		return func(cell value.Cell) error {
			if *to = cell; cell[0] != '[' {
				return fmt.Errorf("%s: expected a list", cell)
			}
			return nil
		}
	}
	err = members{"indices": list(&indices), "values": list(&values)}.read(row)
	return indices, values, err
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
	case row[0] == '[' && r.layout.Sparse < 0:
		return appendNamed(dst, row, r.names)
	case row[0] == '"':
		return append(append(append(append(append(dst, '{'), r.names[0]...), ':'), row...), '}')
	case row[0] == '{' && r.layout.Sparse >= 0:
		indices, values, _ := pairOf(row) // entries has read them
		return appendPairs(dst, indices.Items(), values.Items())
	}
	return append(dst, row...)
}

// appendNamed appends a row that was sent as a list as an object of values by column name, as JSON. Without names it appends the list.
func appendNamed(dst []byte, list value.Cell, names []json.RawMessage) []byte {
	if len(names) == 0 {
		return append(dst, list...)
	}
	items := list.Items()
	dst = append(dst, '{')
	for i, name := range names[:min(len(names), len(items))] {
		dst = append(append(append(appendComma(dst, i == 0), name...), ':'), items[i]...)
	}
	return append(dst, '}')
}

// appendPairs appends a sparse row of two lists as an object: each value by its index.
func appendPairs(dst []byte, indices, values []value.Cell) []byte {
	dst = append(dst, '{')
	for i, index := range indices {
		dst = append(append(append(appendComma(dst, i == 0), '"'), index...), `":`...)
		dst = append(dst, values[i]...)
	}
	return append(dst, '}')
}
