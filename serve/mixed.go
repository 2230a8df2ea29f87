package serve

import (
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// mixedObject appends a row that is an object with a value for each column: a number, a word or a text. Other columns are
// ignored.
func (r *sparseRows) mixedObject(rows *examples.SparseRows) error {
	r.mixed.Begin()
	err := r.document.object(func(column int) (err error) {
		var text string
		if r.mixed.IsText(column) {
			text, err = r.texts(r.scalar)
		} else {
			text, err = r.scalar()
		}
		if err != nil {
			return err
		}
		if err := r.mixed.Put(column, text); err != nil {
			return r.Errorf("%v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.columns.lacks(r.columns.absent())
	if err := r.mixed.End(rows); err != nil {
		return r.Errorf("%v", err)
	}
	return nil
}

// scalar reads a text, a number or a boolean as a text; "" for null.
func (r *sparseRows) scalar() (string, error) {
	switch c := r.Peek(); {
	case c == '"':
		text, err := r.String()
		return string(text), err
	case c == 'n' && r.Null():
		return "", nil
	case c == 't', c == 'f':
		if v, ok := r.Boolean(); ok {
			return value.WordOfBoolean(v), nil
		}
	case c == '-', c >= '0' && c <= '9':
		text, err := r.Number()
		if err != nil {
			return "", err
		}
		return value.WordOfLiteral(string(text)), nil
	}
	return "", r.Expected("a number, a text, a boolean or null")
}
