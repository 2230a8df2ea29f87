package ingest

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/format/csv"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// lines is the name of this format, which is that of files in CSV too.
const lines = "csv"

// csvValues is CSV (RFC 4180) without a header, one example in each row. With
// columns.use a row may have more columns than are named. Otherwise all rows have
// as many as the first.
func csvValues() valueFormat {
	return valueFormat{
		name:    lines,
		meaning: "one example a line, without a header",
		label:   csv.Label,
		keys: []string{"label", "label_separator", "label_columns", "targets", "weight", "text", "words.vocabulary", "words.columns",
			"words.phrases", "delimiter",
			"columns.use", "columns.drop", "categorical", "times", "missing", "missing_values"},
		check: func(o Options) []option.Problem {
			problems := csv.CheckDelimiter(o.Options)
			for _, c := range o.NamedColumns() {
				if c.IsName() {
					problems = append(problems, option.Problem{Key: "from_topic", Value: o.FromTopic, Want: fmt.Sprintf(
						"columns by their numbers, from 0, unlike %s: the values of a topic have no header", value.Quote(string(c)))})
				}
			}
			return problems
		},
		rows: csvRows,
		assign: func(v *Values, row layout.Row) error {
			n := len(row.Fields)
			if len(v.Options.Columns.Use) > 0 {
				n = largest(v.Options) + 1
			} else {
				v.wanted = n
			}
			if n > len(row.Fields) {
				return fmt.Errorf("%d columns, expected at least %d", len(row.Fields), n)
			}
			v.begin(n)
			return v.Assign()
		},
	}
}

// csvRows returns the rows of a value that are not blank.
func csvRows(v *Values, value []byte) (rows []layout.Row, err error) {
	records, err := csv.Rows(value, v.Options.Delimiter)
	if err == nil && len(records) == 0 {
		err = errors.New("an empty value: expected " + v.format.meaning)
	}
	for _, record := range records {
		rows = append(rows, layout.Row{Fields: record})
	}
	return rows, err
}
