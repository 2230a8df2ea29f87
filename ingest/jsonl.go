package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// jsonlFormat is JSON Lines (https://jsonlines.org): an object in each line, whose members are the columns. It is read as a table: the first rows
// say which columns there are, and of which types.
func jsonlFormat() format {
	return tableFormat(format{
		name:     "jsonl",
		meaning:  "JSON Lines: an object in each line, its members the columns, as in `parquet`",
		patterns: []string{"*.jsonl", "*.ndjson"},
		recognise: func(first []byte) bool {
			return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(first, []byte("\ufeff")), " \t\r\n"), []byte("{"))
		},
	}, openJSONLines)
}

const (
	schemaRows  = 1024    // so many first rows say which columns there are
	schemaBytes = 4 << 20 // or fewer, if they are longer than this together
)

// jsonTable reads line after line. Memory holds the current rows, and the first ones until they were current.
type jsonTable struct {
	lineReader
	columns []field
	places  map[string]int // of the columns, by name
	leaves  bool           // columns that the first rows do not have are left out; false: they are an error
	closed  bool           // the first rows have been read
	rows    []jsonRow      // the current ones, and those that follow
	current int
}

// jsonRow is a row. A cell that is null, or that the object does not have, is nil or missing at the end.
type jsonRow struct {
	line  int
	cells []json.RawMessage
}

// cell returns the value of a column; nil: null.
func (r jsonRow) cell(column int) json.RawMessage {
	if column < len(r.cells) {
		return r.cells[column]
	}
	return nil
}

func openJSONLines(c *content, o Options) (table, error) {
	t := &jsonTable{lineReader: lineReader{content: c}, places: map[string]int{}}
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
	var kinds []jsonKinds
	for bytes := 0; len(t.rows) < schemaRows && bytes < schemaBytes; {
		row, err := t.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		for i, cell := range row.cells {
			if i == len(kinds) {
				kinds = append(kinds, jsonKinds{})
			}
			kinds[i].see(cell)
			bytes += len(cell)
		}
		t.rows = append(t.rows, row)
	}
	if len(t.rows) == 0 {
		return nil, errors.New("an empty file")
	}
	for i := range kinds {
		t.columns[i].kind, t.columns[i].typ = kinds[i].kind(), kinds[i].String()
		t.columns[i].length = kinds[i].length
	}
	t.closed, t.leaves = true, o.predicts || o.Text != "" || len(o.Columns.Use) > 0
	return t, nil
}

func (t *jsonTable) fields() []field { return t.columns }

// lineOf implements linedTable.
func (t *jsonTable) lineOf(row int) int { return t.rows[row].line }

// fail returns an error at a current row.
func (t *jsonTable) fail(row int, err error) error {
	if place, ok := errors.AsType[*FileError](err); ok {
		return place
	}
	return &FileError{File: t.name, Line: t.lineOf(row), Offset: -1, Err: err}
}

func (t *jsonTable) begin(n int) (int, error) {
	t.rows = append(t.rows[:0], t.rows[t.current:]...)
	for t.current = 0; len(t.rows) < n; {
		row, err := t.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		t.rows = append(t.rows, row)
	}
	t.current = min(n, len(t.rows))
	return t.current, nil
}

// read reads the next line that is not blank.
func (t *jsonTable) read() (row jsonRow, err error) {
	for {
		line, err := t.readLine()
		if err != nil {
			return row, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return row, t.failLine(errors.New("a line that is not UTF-8: convert the file"))
		}
		cells, err := t.members(line)
		if err != nil {
			return row, t.failLine(err)
		}
		return jsonRow{t.line, cells}, nil
	}
}

// members returns the values of an object, in the order of the columns. While the first rows are read it adds columns.
func (t *jsonTable) members(line []byte) ([]json.RawMessage, error) {
	if err := json.Unmarshal(line, new(json.RawMessage)); err != nil {
		return nil, notJSON(err)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, fmt.Errorf("%s: expected an object with a value for each column", quote(string(line)))
	}
	cells, has := make([]json.RawMessage, len(t.columns)), make([]bool, len(t.columns))
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name := token.(string) // as the line is JSON
		at, known := t.places[name]
		switch {
		case !known && t.closed && t.leaves:
			continue
		case !known && t.closed:
			return nil, fmt.Errorf("a column %s, which the first %d rows do not have: say under examples.columns.use which columns become features", quote(name), schemaRows)
		case !known:
			at, t.places[name] = len(t.columns), len(t.columns)
			t.columns, cells, has = append(t.columns, field{name: name}), append(cells, nil), append(has, false)
		case has[at]:
			return nil, fmt.Errorf("the column %s twice", quote(name))
		}
		if has[at] = true; string(value) != "null" {
			cells[at] = value
		}
	}
	return cells, nil
}
