package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// Format is JSON Lines (https://jsonlines.org): an object in each line, whose members are the columns. It is read as a
// table whose columns and types are inferred from the first rows.
func Format() format.Format {
	return tabular.Format(format.Format{
		Name:     "jsonl",
		Meaning:  "JSON Lines: an object per line",
		Patterns: []string{"*.jsonl", "*.ndjson"},
		IsText:   true,
	}, openJSONLines)
}

const (
	schemaRows  = 1024    // number of rows used for the inference
	schemaBytes = 4 << 20 // or their maximum total length
)

// jsonTable reads lines one by one. Memory holds the current rows, and the first ones until they are current.
type jsonTable struct {
	input.LineReader
	tabular.Rows
	options layout.Options
	within  []string       // columns that the options name by path
	paths   *Paths         // to within
	places  map[string]int // name to column index
	leaves  bool           // columns that the first rows lack are ignored; false: they are an error
	closed  bool           // the first rows have been read
	rows    []jsonRow      // the current rows, and read-ahead
}

// jsonRow is a row. A missing member is null, or missing at the end.
type jsonRow struct {
	line  int
	cells []tabular.Cell
}

func openJSONLines(c *input.Content, o layout.Options) (tabular.Table, error) {
	t := &jsonTable{LineReader: input.LineReader{Content: c}, options: o, places: map[string]int{}}
	t.Missing, t.Fail = value.MissingOf(o.MissingValues), t.fail
	for _, c := range o.NamedColumns() {
		if within := pathsOf([]string{string(c)}); !slices.Contains(t.within, string(c)) {
			t.within = append(t.within, within...)
		}
	}
	t.paths = NewPaths(t.within)
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
			kinds[i].see(cell.Source(), t.Missing)
			bytes += len(cell.Source())
		}
		t.rows = append(t.rows, row)
	}
	if len(t.rows) == 0 {
		return nil, input.ErrEmpty
	}
	for i := range kinds {
		f := &t.Columns[i]
		f.Kind, f.Type, f.Length, f.Digits = kinds[i].kind(), kinds[i].String(), kinds[i].length, kinds[i].digits()
		f.Advice = kinds[i].advice()
		f.Joined = f.Kind == tabular.TextList
	}
	t.closed, t.leaves = true, o.Predicts() || o.Text != "" || len(o.Columns.Use) > 0
	return t, nil
}

// LineOf implements linedTable.
func (t *jsonTable) LineOf(row int) int { return t.rows[row].line }

// fail returns an error at a current row.
func (t *jsonTable) fail(row int, err error) error {
	if place, ok := errors.AsType[*input.Error](err); ok {
		return place
	}
	return &input.Error{File: t.Name, Line: t.LineOf(row), Offset: -1, Err: err}
}

func (t *jsonTable) Begin(n int) (int, error) {
	t.rows = append(t.rows[:0], t.rows[len(t.Current):]...)
	for t.Current = t.Current[:0]; len(t.rows) < n; {
		row, err := t.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		t.rows = append(t.rows, row)
	}
	for _, row := range t.rows[:min(n, len(t.rows))] {
		t.Current = append(t.Current, row.cells)
	}
	return len(t.Current), nil
}

// read reads the next line that is not blank.
func (t *jsonTable) read() (row jsonRow, err error) {
	for {
		line, err := t.ReadLine()
		if err != nil {
			return row, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := value.CheckJSON(line); errors.Is(err, value.ErrNotUTF8) {
			return row, t.FailLine(t.options.NotUTF8(err, true))
		} else if err != nil {
			return row, t.FailLine(err)
		}
		cells, err := t.members(bytes.Clone(line)) // cells are parts of the line, whose buffer is reused
		if err != nil {
			return row, t.FailLine(err)
		}
		return jsonRow{t.Line, cells}, nil
	}
}

// members returns the values of an object, in column order. While the first rows are read it adds columns.
func (t *jsonTable) members(line []byte) ([]tabular.Cell, error) {
	if line[0] != '{' {
		return nil, fmt.Errorf("%s: expected an object with a value for each column", value.Quote(string(line)))
	}
	cells := make([]tabular.Cell, len(t.Columns))
	add := func(name string) (at int) {
		at, t.places[name] = len(t.Columns), len(t.Columns)
		t.Columns, cells = append(t.Columns, tabular.Field{Name: name}), append(cells, tabular.Cell{})
		return at
	}
	err := value.Cell(line).Members(func(name string, cell value.Cell) error {
		at, known := t.places[name]
		switch {
		case !known && t.closed && t.leaves:
			return nil
		case !known && t.closed:
			return fmt.Errorf("a column %s, which is missing in the first %d rows: "+
				"list the feature columns under examples.columns.use", value.Quote(name), schemaRows)
		case !known:
			at = add(name)
		}
		cells[at] = tabular.JSON(cell)
		return nil
	})
	if err != nil || len(t.within) == 0 {
		return cells, err
	}
	found := make([]tabular.Cell, len(t.within))
	err = t.paths.Read(line, found)
	for i, name := range t.within {
		at, known := t.places[name]
		if !known && (t.closed || !t.paths.Has(i)) {
			continue
		}
		if !known {
			at = add(name)
		}
		cells[at] = found[i]
	}
	return cells, err
}
