package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
)

// jsonValues is JSON (RFC 8259): an object with a value for each column, or an
// array of such objects. Columns that no key names are not read. If
// columns.use names one column alone, it may have all features as an array.
func jsonValues() valueFormat {
	return valueFormat{
		name:    "json",
		meaning: "an object with a value for each column, or an array of such objects",
		label:   tableLabel,
		keys:    []string{"label", "weight", "columns.use", "missing", "missing_values"},
		check: func(o Options) (problems []schemas.Problem) {
			if len(o.Columns.Use) == 0 {
				problems = append(problems, schemas.Problem{Key: "columns.use", Value: "[]", Want: "the columns that become features: each message may have others"})
			}
			if len(o.Columns.Drop) > 0 {
				problems = append(problems, schemas.Problem{Key: "columns.drop", Value: fmt.Sprint(o.Columns.Drop), Want: "no columns: only those of columns.use become features"})
			}
			return problems
		},
		rows: jsonRows,
		lay:  layJSON,
	}
}

// jsonColumns returns the columns that are read: the label, the weight if there is
// one, and the features.
func (v *Values) jsonColumns() []string {
	o := v.options
	columns := []string{cmp.Or(string(o.Label), tableLabel)}
	if o.Weight != "" {
		columns = append(columns, string(o.Weight))
	}
	return append(columns, o.Columns.Use...)
}

// layJSON makes the layout of rows of which the first is this one. It is longer
// than the columns if it has an array of features.
func layJSON(v *Values, row []string) error {
	columns := v.jsonColumns()
	first := len(columns) - len(v.options.Columns.Use)
	v.begin(len(row))
	v.names, v.layout.label = columns, 0
	v.cells[0].role = label
	if first > 1 {
		v.layout.weight = 1
		v.cells[1].role = weight
	}
	for i := range v.cells[first:] {
		v.cells[first+i].at = i
	}
	v.features, v.wanted = len(row)-first, len(row)
	if v.features == len(v.options.Columns.Use) {
		for _, name := range v.options.Columns.Use {
			v.table = append(v.table, schemas.Column{Name: name})
		}
	}
	return v.finish()
}

// jsonRows returns the examples of a value as rows of texts, in the order of the
// columns. A value that is missing is "".
func jsonRows(v *Values, value []byte) (rows [][]string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var content any
	if err := decoder.Decode(&content); err != nil {
		return nil, notJSON(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON: expected " + v.format.meaning)
	}
	objects, isArray := content.([]any)
	if !isArray {
		objects = []any{content}
	}
	for i, object := range objects {
		row, err := v.jsonRow(object)
		if err != nil {
			if isArray {
				err = fmt.Errorf("row %d, counted from 0: %w", i, err)
			}
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func notJSON(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: it ends too early")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON: byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// jsonRow returns the fields of an example.
func (v *Values) jsonRow(content any) (row []string, err error) {
	object, ok := content.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: expected %s", jsonKind(content), v.format.meaning)
	}
	columns := v.jsonColumns()
	for i, column := range columns {
		list, isList := object[column].([]any)
		if isList && len(v.options.Columns.Use) == 1 && i == len(columns)-1 {
			for at, item := range list {
				text, ok := jsonText(item)
				if !ok {
					return nil, fmt.Errorf("column %s, value %d: %s: expected a number", quote(column), at, jsonKind(item))
				}
				row = append(row, text)
			}
			continue
		}
		text, ok := jsonText(object[column])
		if !ok {
			return nil, fmt.Errorf("column %s: %s: expected a number or a text", quote(column), jsonKind(object[column]))
		}
		row = append(row, text)
	}
	return row, nil
}

// jsonText returns a value as a CSV would have it. As in tables with types,
// booleans are 0 and 1.
func jsonText(value any) (text string, ok bool) {
	switch value := value.(type) {
	case nil:
		return "", true
	case string:
		return value, true
	case json.Number:
		return value.String(), true
	case bool:
		if value {
			return "1", true
		}
		return "0", true
	}
	return "", false
}

func jsonKind(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return fmt.Sprintf("an array of %d", len(value))
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return value.String()
	}
	return quote(fmt.Sprint(value))
}
