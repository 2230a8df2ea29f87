package serve

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/serve/answers"
	"github.com/stagewise/stagewise/serve/jsonscan"
)

// jsonRows reads the rows of a request: {"columns": […], "rows": […]}. A row is a list of values, in the order of columns
// if present and otherwise in that of the model, or an object of named values. A value is a number, a boolean, null if it
// is missing, or a text with a word or a number. An absent column is missing, if the model was trained with missing
// values.
type jsonRows struct {
	document
	places  *layout.Places
	missing bool              // missing values are allowed
	order   []int             // column of the model for each value of a list; −1: none
	absent  []int             // columns of the model that are not in lists
	plain   bool              // each value of a list is the next feature
	names   []json.RawMessage // of the values of a list, as JSON

	features []float32              // of the current row
	put      func(column int) error // reads a value of the current row
}

// newJSONRows reads the members before the rows.
func newJSONRows(body []byte, v *version, asks *asked) (*jsonRows, error) {
	text, err := jsonscan.New(body)
	if err != nil {
		return nil, err
	}
	r := &jsonRows{places: v.places, missing: v.options.Missing.Mode != layout.MissingError}
	r.names = v.names
	r.document = document{Scanner: text, asks: asks, list: r.readColumns, columns: newColumns(v.places.Names)}
	r.put = func(column int) error { return r.value(r.features, column) }
	r.order = make([]int, 0, r.places.Columns())
	for i := range r.places.Columns() {
		r.order = append(r.order, i)
	}
	r.lay()
	return r, r.open()
}

// lay determines whether the values of lists are the features.
func (r *jsonRows) lay() {
	r.plain = true
	for i, column := range r.order {
		at, isNumber := 0, false
		if column >= 0 {
			at, isNumber = r.places.Numbers(column)
		}
		r.plain = r.plain && isNumber && at == i
	}
}

// readColumns reads the list of the columns.
func (r *jsonRows) readColumns() (changed bool, err error) {
	if !r.places.HasNames() {
		return false, r.Errorf(`"columns": the model has no column names; `+
			`omit it, and send the %d features in order`, r.places.Columns())
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
	r.lay()
	r.absent = r.columns.absent()
	if len(r.absent) > 0 && !r.missing {
		return false, r.places.Lacks(r.columns.has)
	}
	return !slices.Equal(before, r.order), nil
}

// next reads the next row, and returns false after the last.
func (r *jsonRows) next(features []float32) (bool, error) {
	there, err := r.row()
	if err != nil || !there {
		return false, err
	}
	switch r.Peek() {
	case '[':
		err = r.list(features)
	case '{':
		err = r.object(features)
	default:
		err = r.Expected("a row: a list of values, or an object of named values")
	}
	if err != nil {
		return false, fmt.Errorf("row %d: %w", r.count, err)
	}
	r.rowEnds()
	return true, nil
}

// sent appends a row as sent; a list with the names of its columns.
func (r *jsonRows) sent(dst, row []byte) []byte {
	if row[0] == '[' {
		return answers.AppendNamed(dst, row, r.names)
	}
	return append(dst, row...)
}

// list reads a row that is a list. It has a loop of its own: with elements a request takes a twentieth longer.
func (r *jsonRows) list(features []float32) error {
	r.At++
	for i := 0; ; i++ {
		there, err := r.More(']', i == 0)
		if err != nil {
			return err
		}
		if !there {
			if i != len(r.order) {
				return r.Errorf("%d values, expected %d", i, len(r.order))
			}
			return r.miss(features, r.absent)
		}
		if i >= len(r.order) {
			return r.Errorf("more than %d values", len(r.order))
		}
		if c := r.Peek(); r.plain && (c-'0' <= 9 || c == '-') {
			features[i], err = r.Float()
		} else {
			err = r.value(features, r.order[i])
		}
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
	}
}

// object reads a row that is an object.
func (r *jsonRows) object(features []float32) error {
	if !r.places.HasNames() {
		return r.Errorf("an object: the model has no column names; send a list of the %d features", r.places.Columns())
	}
	r.features = features
	if err := r.document.object(r.put); err != nil {
		return err
	}
	absent := r.columns.absent()
	if len(absent) > 0 && !r.missing {
		return r.places.Lacks(r.columns.has)
	}
	return r.miss(features, absent)
}

// miss sets the missing values of a row.
func (r *jsonRows) miss(features []float32, columns []int) error {
	r.columns.lacks(columns)
	for _, column := range columns {
		if err := r.places.PutMissing(features, column); err != nil {
			return err
		}
	}
	return nil
}

// value reads a value of a column; −1: not a column of the model.
func (r *jsonRows) value(features []float32, column int) error {
	if column < 0 {
		return r.Skip()
	}
	at, isNumber := r.places.Numbers(column)
	switch c := r.Peek(); {
	case c == '"':
		text, err := r.String()
		if err != nil {
			return err
		}
		return r.places.PutText(features, column, string(text))
	case c == 'n' && r.Null():
		return r.places.PutMissing(features, column)
	case isNumber:
		v, err := r.Float()
		features[at] = v
		return err
	default:
		if v, ok := r.Boolean(); ok {
			return r.places.PutText(features, column, value.WordOfBoolean(v))
		}
		text, err := r.Number()
		if err != nil {
			return err
		}
		return r.places.PutText(features, column, value.WordOfLiteral(string(text)))
	}
}
