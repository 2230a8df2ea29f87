package serve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/schemas"
)

// The keys of a sparse row that is an object.
const (
	keyIndices = "indices"
	keyValues  = "values"
)

// sparseRows reads the rows of a request to a model of sparse rows: {"rows": […]}. A row is {"indices": […], "values": […]}, the features that are not 0,
// or a list of all values, or of a model of texts a text, or an object with the column of texts.
type sparseRows struct {
	scanner
	text    string             // the column of texts; "": the model was not trained on texts
	words   *ingest.WordCounts // of the texts; nil as that
	indices []int64            // of the row that is read
	values  []float32
	read    int // rows
}

// newSparseRows reads what comes before the rows.
func newSparseRows(body []byte, o ingest.Options) (*sparseRows, error) {
	r := &sparseRows{scanner: scanner{text: body}}
	if o.Text != "" {
		if !utf8.Valid(body) {
			return nil, errors.New("a text that is not UTF-8")
		}
		r.text, r.words = string(o.Text), ingest.NewWordCounts(o)
	}
	if err := r.take('{'); err != nil {
		return nil, err
	}
	name, err := r.string()
	if err != nil {
		return nil, err
	}
	if string(name) != keyRows {
		return nil, r.errorf(`the key %.40q, expected "rows" alone: the model was trained on sparse rows`, name)
	}
	if err := r.take(':'); err != nil {
		return nil, err
	}
	return r, r.take('[')
}

// next appends the next row, and returns false after the last.
func (r *sparseRows) next(rows *schemas.SparseRows) (bool, error) {
	there, err := r.more(']', r.read == 0)
	if err != nil || !there {
		return false, err
	}
	switch c := r.peek(); {
	case c == '{':
		err = r.object(rows)
	case c == '[' && r.words == nil:
		err = r.list(rows)
	case c == '"' && r.words != nil:
		err = r.count(rows)
	case r.words != nil:
		err = r.expected("a text, or an object with the column " + strconv.Quote(r.text))
	default:
		err = r.expected(`an object with "indices" and "values", or a list of all values`)
	}
	if err != nil {
		return false, fmt.Errorf("row %d: %w", r.read, err)
	}
	r.read++
	return true, nil
}

// finish reads what comes after the rows.
func (r *sparseRows) finish() error {
	if err := r.take('}'); err != nil {
		return err
	}
	return r.end()
}

// count appends the counts of a text.
func (r *sparseRows) count(rows *schemas.SparseRows) error {
	text, err := r.string()
	if err != nil {
		return err
	}
	return r.words.Append(rows, string(text))
}

// list appends a row that is a list of all values.
func (r *sparseRows) list(rows *schemas.SparseRows) error {
	err := r.elements(func(i int) error {
		v, err := r.float()
		switch {
		case err != nil:
			return fmt.Errorf("value %d: %w", i, err)
		case v != 0 && i >= schemas.MaxColumns:
			return r.errorf("more than %d values", schemas.MaxColumns)
		}
		rows.Append(int32(i), v)
		return nil
	})
	rows.End()
	return err
}

// object appends a row that is an object. Other keys than those that are known are passed over.
func (r *sparseRows) object(rows *schemas.SparseRows) error {
	has := map[string]bool{}
	r.indices, r.values = r.indices[:0], r.values[:0]
	err := r.members(func(name []byte) error {
		key := string(name)
		if err := r.take(':'); err != nil {
			return err
		}
		var err error
		switch {
		case r.words != nil && key == r.text && !has[key]:
			err = r.count(rows)
		case r.words == nil && key == keyIndices && !has[key]:
			err = r.each(r.index)
		case r.words == nil && key == keyValues && !has[key]:
			err = r.each(r.value)
		case has[key]:
			err = r.errorf("the key %.40q twice", key)
		default:
			return r.skip()
		}
		if has[key] = true; err != nil {
			return fmt.Errorf("%.40q: %w", key, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case r.words != nil && !has[r.text]:
		return r.errorf("no %.40q, the column of texts", r.text)
	case r.words != nil:
		return nil
	case !has[keyIndices] || !has[keyValues] || len(r.indices) != len(r.values):
		return r.errorf(`%d "indices" and %d "values", expected as many of both`, len(r.indices), len(r.values))
	}
	for i, v := range r.values {
		rows.Append(int32(r.indices[i]), v)
	}
	rows.End()
	return nil
}

// each calls read at each element of a list.
func (r *sparseRows) each(read func() error) error {
	return r.elements(func(i int) error {
		if err := read(); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		return nil
	})
}

// index reads an index, which must be above the one before.
func (r *sparseRows) index() error {
	text, err := r.number()
	if err != nil {
		return err
	}
	index, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return r.errorf("index %.40s: expected a whole number from 0 to %d", text, schemas.MaxColumns-1)
	}
	before := int64(-1)
	if n := len(r.indices); n > 0 {
		before = r.indices[n-1]
	}
	if err := schemas.CheckIndex(index, before); err != nil {
		return r.errorf("%v", err)
	}
	r.indices = append(r.indices, index)
	return nil
}

// value reads a value.
func (r *sparseRows) value() error {
	v, err := r.float()
	r.values = append(r.values, v)
	return err
}

// addSparse adds the answer to sparse rows of JSON.
func (w *workspace) addSparse(ctx context.Context, v *version, body []byte, limit int) error {
	rows, err := newSparseRows(body, v.options)
	if err != nil {
		return unusable(err)
	}
	var batch schemas.SparseRows
	for more := true; more; {
		for batch.Reset(); batch.Len() < tileRows; {
			if more, err = rows.next(&batch); err != nil {
				return unusable(err)
			} else if !more {
				break
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := w.predictions.extend(v.Model, batch.Len(), limit, func(added []float32) { v.ProbabilitiesSparse(added, &batch) })
		if err != nil {
			return err
		}
	}
	if err := rows.finish(); err != nil {
		return unusable(err)
	}
	return nil
}
