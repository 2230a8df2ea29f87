package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest"
)

// The keys of a request.
const (
	keyRows    = "rows"
	keyColumns = "columns"
)

// jsonRows reads the rows of a request: {"columns": […], "rows": […]}. A row is a list of values, in the order of columns if they are given and
// else in that of the model, or an object of named values. A value is a number, null if it is missing, or the text of a word or a number.
type jsonRows struct {
	scanner
	places *ingest.Places
	order  []int  // the model's column of each value of a list; −1: of none
	named  bool   // the columns are given
	late   bool   // they come after the rows
	plain  bool   // each value of a list is the next feature
	has    []bool // the columns that a list of columns or an object has
	start  int    // where the rows begin
	read   int    // rows
}

// newJSONRows reads what comes before the rows.
func newJSONRows(body []byte, places *ingest.Places) (*jsonRows, error) {
	r := &jsonRows{scanner: scanner{text: body}, places: places, has: make([]bool, places.Columns())}
	for i := range places.Columns() {
		r.order = append(r.order, i)
	}
	r.lay()
	if err := r.take('{'); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		there, err := r.more('}', first)
		if err != nil {
			return nil, err
		}
		if !there {
			return nil, r.errorf(`no "rows"`)
		}
		key, err := r.key()
		switch {
		case err != nil:
			return nil, err
		case key == keyRows:
			r.start = r.at
			return r, nil
		}
		if err := r.columns(); err != nil {
			return nil, err
		}
	}
}

// lay finds out whether the values of lists are the features.
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

// key reads "rows" or "columns", and the colon.
func (r *jsonRows) key() (string, error) {
	name, err := r.string()
	if err != nil {
		return "", err
	}
	if key := string(name); key == keyRows || key == keyColumns {
		return key, r.take(':')
	}
	return "", r.errorf(`the key %.40q, expected "rows", and "columns" if need be`, name)
}

// columns reads the list of the columns.
func (r *jsonRows) columns() error {
	if !r.places.HasNames() {
		return r.errorf(`"columns": the model does not know the names of its columns; leave it out, and send the %d features in order`, r.places.Columns())
	}
	if r.named {
		return r.errorf(`"columns" twice`)
	}
	r.named = true
	r.order = nil
	clear(r.has)
	err := r.elements(func(int) error {
		name, err := r.string()
		if err != nil {
			return err
		}
		column, err := r.find(name)
		r.order = append(r.order, column)
		return err
	})
	if err != nil {
		return err
	}
	r.lay()
	return r.places.Lacks(r.has)
}

// find returns the column of a name, and marks that the list or the object has it; −1 if the model has no such column.
func (r *jsonRows) find(name []byte) (int, error) {
	column, known := r.places.Find(name)
	switch {
	case !known:
		return -1, nil
	case r.has[column]:
		return 0, r.errorf("the column %.40q twice", name)
	}
	r.has[column] = true
	return column, nil
}

// begin begins the list of rows, for the first time or again.
func (r *jsonRows) begin() error {
	r.at, r.read, r.named = r.start, 0, r.named && !r.late // finish reads late columns once more
	return r.take('[')
}

// next reads the next row, and returns false after the last.
func (r *jsonRows) next(features []float32) (bool, error) {
	there, err := r.more(']', r.read == 0)
	if err != nil || !there {
		return false, err
	}
	switch r.peek() {
	case '[':
		err = r.list(features)
	case '{':
		err = r.object(features)
	default:
		err = r.expected("a row: a list of values, or an object of named values")
	}
	if err != nil {
		return false, fmt.Errorf("row %d: %w", r.read, err)
	}
	r.read++
	return true, nil
}

// list reads a row that is a list. Its loop is its own: with elements a request takes a twentieth longer.
func (r *jsonRows) list(features []float32) error {
	r.at++
	for i := 0; ; i++ {
		there, err := r.more(']', i == 0)
		if err != nil {
			return err
		}
		if !there {
			if i != len(r.order) {
				return r.errorf("%d values, expected %d", i, len(r.order))
			}
			return nil
		}
		if i >= len(r.order) {
			return r.errorf("more than %d values", len(r.order))
		}
		if c := r.peek(); r.plain && (c-'0' <= 9 || c == '-') {
			features[i], err = r.float()
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
		return r.errorf("an object: the model does not know the names of its columns; send a list of the %d features", r.places.Columns())
	}
	clear(r.has)
	err := r.members(func(name []byte) error {
		column, err := r.find(name)
		if err != nil {
			return err
		}
		if err := r.take(':'); err != nil {
			return err
		}
		if err := r.value(features, column); err != nil {
			return fmt.Errorf("column %.40q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.places.Lacks(r.has)
}

// value reads a value of a column; −1: of none that the model has.
func (r *jsonRows) value(features []float32, column int) error {
	if column < 0 {
		return r.skip()
	}
	at, isNumber := r.places.Numbers(column)
	switch c := r.peek(); {
	case c == '"':
		text, err := r.string()
		if err != nil {
			return err
		}
		return r.places.PutText(features, column, string(text))
	case c == 'n' && r.null():
		return r.places.PutMissing(features, column)
	case isNumber:
		v, err := r.float()
		features[at] = v
		return err
	default:
		text, err := r.number()
		if err != nil {
			return err
		}
		return r.places.PutText(features, column, string(text))
	}
}

// finish reads what comes after the rows. again says that the columns have come only now, so that the rows must be read once more.
func (r *jsonRows) finish() (again bool, err error) {
	for {
		there, err := r.more('}', false)
		if err != nil {
			return false, err
		}
		if !there {
			return again, r.end()
		}
		key, err := r.key()
		switch {
		case err != nil:
			return false, err
		case key == keyRows:
			return false, r.errorf(`"rows" twice`)
		}
		before := r.order
		if err := r.columns(); err != nil {
			return false, err
		}
		again, r.late = !slices.Equal(before, r.order), true
	}
}

// appendJSON appends the answer to rows. quoted are the labels of the model, or the names of its targets, as JSON.
func (p *predictions) appendJSON(dst []byte, quoted [][]byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"version":`...), int64(p.version), 10)
	if p.numbers {
		dst = append(append(append(dst, `,"targets":[`...), bytes.Join(quoted, []byte(","))...), `],"predictions":[`...)
	} else {
		dst = append(dst, `,"labels":[`...)
		for i, class := range p.classes {
			if i > 0 {
				dst = append(dst, ',')
			}
			if p.given != nil {
				text, _ := json.Marshal(p.given(p.probabilities[i*len(quoted) : (i+1)*len(quoted)])) // texts have JSON
				dst = append(dst, text...)
				continue
			}
			dst = append(dst, quoted[class]...)
		}
		dst = append(dst, `],"probabilities":[`...)
	}
	k := len(quoted)
	for i := range p.classes {
		if i > 0 {
			dst = append(dst, ',')
		}
		for c, v := range p.probabilities[i*k : (i+1)*k] {
			dst = append(dst, "[,"[min(c, 1)])
			if v64 := float64(v); math.IsNaN(v64) || math.IsInf(v64, 0) {
				dst = append(dst, "null"...) // JSON has no other way to say it
			} else {
				dst = strconv.AppendFloat(dst, v64, 'g', -1, 32)
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, "]}\n"...)
}

// quote returns texts as JSON.
func quote(texts []string) [][]byte {
	quoted := make([][]byte, len(texts))
	for i, text := range texts {
		quoted[i], _ = json.Marshal(text) // a string has JSON
	}
	return quoted
}
