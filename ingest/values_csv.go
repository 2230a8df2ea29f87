package ingest

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
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
		label:   csvLabel,
		keys:    []string{"label", "weight", "delimiter", "columns.use", "columns.drop", "missing", "missing_values"},
		check: func(o Options) []schemas.Problem {
			problems := checkDelimiter(o)
			for _, c := range o.namedColumns() {
				if c.IsName() {
					problems = append(problems, schemas.Problem{Key: "from_topic", Value: o.FromTopic, Want: fmt.Sprintf(
						"columns by their numbers, from 0, unlike %s: the values of a topic have no header", quote(string(c)))})
				}
			}
			return problems
		},
		rows: csvRows,
		lay: func(v *Values, row []string) error {
			n := len(row)
			if len(v.options.Columns.Use) > 0 {
				n = v.options.largest() + 1
			} else {
				v.wanted = n
			}
			if n > len(row) {
				return fmt.Errorf("%d columns, expected at least %d", len(row), n)
			}
			v.begin(n)
			if err := v.assign(); err != nil {
				return err
			}
			return v.lay()
		},
	}
}

// csvRows returns the rows of a value that are not blank.
func csvRows(v *Values, value []byte) (rows [][]string, err error) {
	comma := ','
	if v.options.Delimiter != "" {
		comma = []rune(v.options.Delimiter)[0]
	}
	parser := newCSVParser(bytes.NewReader(value), comma)
	parser.ReuseRecord = false
	for {
		row, err := parser.Read()
		if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("line %d, byte %d: %w", syntax.Line, syntax.Column, syntax.Err)
		}
		switch {
		case err == io.EOF && len(rows) == 0:
			return nil, errors.New("an empty value: expected " + v.format.meaning)
		case err == io.EOF:
			return rows, nil
		case err != nil:
			return nil, err
		case len(row) == 1 && strings.TrimSpace(row[0]) == "": // a blank row
			continue
		}
		rows = append(rows, slices.Clip(row))
	}
}
