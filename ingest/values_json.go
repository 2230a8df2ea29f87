package ingest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// jsonValues is JSON (RFC 8259): an object with a value for each column, or an
// array of such objects. Columns that no key names are not read. If
// columns.use names one column alone, it may have all features as an array.
func jsonValues() valueFormat {
	return valueFormat{
		name:    "json",
		meaning: "an object with a value for each column, or an array of such objects",
		label:   tabular.Label,
		keys: []string{"label", "label_separator", "label_columns", "targets", "weight", "text", "words.vocabulary", "words.columns",
			"words.phrases",
			"columns.use", "categorical", "times", "missing", "missing_values"},
		check: func(o Options) (problems []option.Problem) {
			if len(o.Columns.Use) == 0 && o.Text == "" {
				problems = append(problems, option.Problem{Key: "columns.use", Value: "[]",
					Want: "the columns that become features: each message may have others"})
			}
			if len(o.Columns.Drop) > 0 {
				problems = append(problems, option.Problem{Key: "columns.drop", Value: fmt.Sprint(o.Columns.Drop),
					Want: "no columns: only those of columns.use become features"})
			}
			return problems
		},
		rows:   jsonRows,
		assign: assignJSON,
	}
}

// jsonColumns returns the columns that are read: those of the label or of what else is predicted, the weight if there
// is one, and those of features.
func jsonColumns(o layout.Options) []string {
	columns := slices.Concat(o.Targets, o.LabelColumns)
	if len(columns) == 0 {
		columns = []string{cmp.Or(string(o.Label), tabular.Label)}
	}
	for _, c := range []layout.Column{o.Weight, o.Text} {
		if c != "" {
			columns = append(columns, string(c))
		}
	}
	return append(columns, o.Columns.Use...)
}

// assignJSON makes the layout one of rows like this one, which is longer than the columns if it has an array of features.
func assignJSON(v *Values, row layout.Row) error {
	columns := jsonColumns(v.Options)
	if len(row.Fields) < len(columns) {
		return layout.ErrNoFeature
	}
	v.begin(len(row.Fields))
	v.Names, v.ByName, v.wanted = columns, true, len(row.Fields)
	if err := v.Assign(); err != nil || len(row.Fields) == len(columns) {
		return err
	}
	v.Cells = v.Cells[:len(columns)] // the last has all features
	list := &v.Cells[len(columns)-1]
	list.List, list.Length = true, 1+len(row.Fields)-len(columns)
	return nil
}

// jsonRows returns the examples of a value as rows of texts, in the order of the
// columns. A value that is missing is "".
func jsonRows(v *Values, content []byte) (rows []layout.Row, err error) {
	content = bytes.TrimSpace(content)
	if err := value.CheckJSON(content); errors.Is(err, value.ErrNotUTF8) {
		return nil, v.Options.NotUTF8(err, true)
	} else if err != nil {
		return nil, err
	}
	objects, isArray := []value.Cell{content}, content[0] == '['
	if isArray {
		objects = value.Cell(content).Items()
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

// jsonRow returns the fields of an example.
func (v *Values) jsonRow(object value.Cell) (row layout.Row, err error) {
	if object[0] != '{' {
		return row, fmt.Errorf("%s: expected %s", object, v.format.meaning)
	}
	o := v.Options
	columns := jsonColumns(o)
	if v.places == nil {
		v.places = make(map[string]int, len(columns))
		for i, column := range columns {
			v.places[column] = i
		}
	}
	cells, predicted := make([]value.Cell, len(columns)), len(o.Targets)+len(o.LabelColumns) > 0
	err = object.Members(func(name string, cell value.Cell) error {
		if at, read := v.places[name]; read {
			cells[at], predicted = cell, predicted || at == 0
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	if !predicted {
		return row, lacksColumn(object, columns[0])
	}
	for i, column := range columns {
		cell, isLabel := cells[i], i == 0 && len(o.Targets)+len(o.LabelColumns) == 0
		isArray := !cell.Null() && cell[0] == '['
		switch {
		case isLabel && o.Several() && (isArray || cell.Null()):
			row.IsList = true
			if row.Labels, err = textsOf(cell); err != nil {
				return row, fmt.Errorf("column %s: %w", value.Quote(column), err)
			}
			row.Fields = append(row.Fields, "")
			continue
		case isArray && len(o.Columns.Use) == 1 && i == len(columns)-1:
			for at, item := range cell.Items() {
				text, err := item.Field()
				if err != nil {
					return row, fmt.Errorf("column %s, value %d: %w", value.Quote(column), at, err)
				}
				row.Fields = append(row.Fields, text)
			}
			continue
		}
		text, err := "", error(nil)
		if isLabel || column == string(o.Text) || slices.Contains(o.Categorical, column) || slices.Contains(o.LabelColumns, column) {
			text, err = cell.Text()
		} else {
			text, err = cell.Field()
		}
		if err != nil {
			return row, fmt.Errorf("column %s: %w", value.Quote(column), err)
		}
		row.Fields = append(row.Fields, text)
	}
	return row, nil
}

// textsOf returns the texts of an array; nil for null.
func textsOf(cell value.Cell) (texts []string, err error) {
	if cell.Null() {
		return nil, nil
	}
	texts = []string{}
	for i, item := range cell.Items() {
		text, err := item.Text()
		if err != nil {
			return nil, fmt.Errorf("label %d of the list: %w", i, err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}
