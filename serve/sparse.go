package serve

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/serve/answers"
	"github.com/stagewise/stagewise/serve/jsonscan"
)

// Keys of a sparse row that is an object.
const (
	keyIndices = "indices"
	keyValues  = "values"
)

// sparseRows reads the rows of a request to a model on sparse rows: {"rows": […]}. A row is {"indices": […], "values":
// […]}, the nonzero features, or a list of all values; for a model on texts it is a text, or an object with the text
// column.
type sparseRows struct {
	document
	text  string              // text column; "": the model was not trained on texts
	words *vocabulary.Counter // for texts, otherwise nil
	mixed *layout.MixedRow    // nil: rows are not mixed
}

// newSparseRows reads the members before the rows.
func newSparseRows(body []byte, o layout.Options, names examples.Columns, asks *asked) (*sparseRows, error) {
	text, err := jsonscan.New(body)
	if err != nil {
		return nil, err
	}
	r := &sparseRows{document: document{Scanner: text, asks: asks, columns: &columns{}}}
	r.list = func() (bool, error) {
		return false, r.Errorf(`"columns": the model was trained on sparse rows, which have none`)
	}
	if o.Mixed() {
		if r.mixed, err = layout.NewMixedRow(o, layout.Features{Columns: names, Sparse: true}); err != nil {
			return nil, err
		}
		r.columns = newColumns(r.mixed.Names)
	} else if o.Text != "" {
		r.text, r.words = string(o.Text), vocabulary.NewCounter(o.Words)
		r.columns = newColumns(layout.NewNames([]string{r.text}))
	}
	return r, r.open()
}

// next appends the next row, and returns false after the last.
func (r *sparseRows) next(rows *examples.SparseRows) (bool, error) {
	there, err := r.row()
	if err != nil || !there {
		return false, err
	}
	switch c := r.Peek(); {
	case r.mixed != nil && c == '{':
		err = r.mixedObject(rows)
	case r.mixed != nil:
		err = r.Expected("an object with a value for each column")
	case c == '{' && r.words != nil:
		err = r.textObject(rows)
	case c == '{':
		err = r.pairs(rows)
	case c == '[' && r.words == nil:
		err = r.values(rows)
	case c == '"' && r.words != nil:
		r.columns.found = true
		err = r.countWords(rows)
	case r.words != nil:
		err = r.Expected("a text, or an object with the column " + strconv.Quote(r.text))
	default:
		err = r.Expected(`an object with "indices" and "values", or a list of all values`)
	}
	if err != nil {
		return false, fmt.Errorf("row %d: %w", r.count, err)
	}
	r.rowEnds()
	return true, nil
}

// sent appends a row as sent: a text with the name of its column, and two lists as an object of values by index.
func (r *sparseRows) sent(dst, row []byte) []byte {
	if r.words != nil && row[0] == '"' {
		name, _ := json.Marshal(r.text) // a string can be encoded
		return append(append(append(append(append(dst, '{'), name...), ':'), row...), '}')
	}
	var pairs struct{ Indices, Values json.RawMessage }
	if r.words == nil && row[0] == '{' && json.Unmarshal(row, &pairs) == nil {
		return answers.AppendPairs(dst, pairs.Indices, pairs.Values)
	}
	return append(dst, row...)
}

// countWords appends the word counts of a text, or of a list of texts.
func (r *sparseRows) countWords(rows *examples.SparseRows) error {
	text, err := r.texts(r.scalar)
	if err != nil {
		return err
	}
	return r.words.Append(rows, text)
}

// texts reads a text, or the texts of a list, separated by spaces.
func (r *sparseRows) texts(one func() (string, error)) (string, error) {
	if r.Peek() != '[' {
		return one()
	}
	var all []string
	err := r.Elements(func(int) error {
		text, err := one()
		all = append(all, text)
		return err
	})
	return strings.Join(all, " "), err
}

// textObject appends a row that is an object with the column of texts.
func (r *sparseRows) textObject(rows *examples.SparseRows) error {
	err := r.document.object(func(int) error { return r.countWords(rows) })
	if err != nil {
		return err
	}
	if !r.columns.has[0] {
		return r.Errorf("no %.40q, the column of texts", r.text)
	}
	r.columns.found = true
	return nil
}

// values appends a row that is a list of all values.
func (r *sparseRows) values(rows *examples.SparseRows) error {
	err := r.Elements(func(i int) error {
		v, err := r.Float()
		switch {
		case err != nil:
			return fmt.Errorf("value %d: %w", i, err)
		case v != 0 && i >= examples.MaxColumns:
			return r.Errorf("more than %d values", examples.MaxColumns)
		}
		rows.Append(int32(i), v)
		return nil
	})
	rows.End()
	return err
}

// pairs appends a row that is an object of two lists. Unknown keys are ignored.
func (r *sparseRows) pairs(rows *examples.SparseRows) error {
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
func (r *sparseRows) readIndices(rows *examples.SparseRows, from int) error {
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
func (r *sparseRows) readValues(rows *examples.SparseRows) error {
	return r.Elements(func(i int) error {
		v, err := r.Float()
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		rows.Values = append(rows.Values, v)
		return nil
	})
}
