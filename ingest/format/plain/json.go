package plain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// JSONLines is JSON Lines (https://jsonlines.org): an object in each line, whose members are the columns. It is read as a
// table whose columns and types are inferred from the first rows.
func JSONLines() format.Format {
	return format.Format{
		Name:     "jsonl",
		Meaning:  "JSON Lines: an object per line",
		Patterns: []string{"*.jsonl", "*.ndjson"},
		IsText:   true,
		Label:    format.Label,
		Files:    1,
		Table:    openJSON,
	}
}

const (
	schemaRows  = 1024    // number of rows used for the inference
	schemaBytes = 4 << 20 // or their maximum total length
)

// jsonSource reads lines one by one. Memory holds a block, and the first rows until they are read.
type jsonSource struct {
	input.LineReader
	options layout.Options
	fields  []tabular.Field
	within  []string       // columns that the options name by path
	paths   *tabular.Paths // to within
	places  map[string]int // name to column index
	leaves  bool           // columns that the first rows lack are ignored; false: they are an error
	closed  bool           // the first rows have been read
	ahead   []jsonRow      // the first rows that are in no block yet
}

// jsonRow is a line. A missing member is null, or missing at the end.
type jsonRow struct {
	line, bytes int
	cells       []tabular.Cell
}

// openJSON reads the first rows, from which the types of columns are inferred.
func openJSON(c *input.Content, o layout.Options, _ *layout.Features) (format.Table, error) {
	s := &jsonSource{LineReader: input.LineReader{Content: c}, options: o, places: map[string]int{}}
	for _, name := range o.Named() {
		if len(tabular.Path(name)) > 1 && !slices.Contains(s.within, name) {
			s.within = append(s.within, name)
		}
	}
	s.paths = tabular.NewPaths(s.within)
	c.SkipMark()
	var kinds []jsonKinds
	missing := value.MissingOf(o.MissingValues)
	for bytes := 0; len(s.ahead) < schemaRows && bytes < schemaBytes; {
		row, err := s.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return format.Table{}, err
		}
		for i, cell := range row.cells {
			if i == len(kinds) {
				kinds = append(kinds, jsonKinds{})
			}
			kinds[i].see(cell, missing)
		}
		bytes += row.bytes
		s.ahead = append(s.ahead, row)
	}
	if len(s.ahead) == 0 {
		return format.Table{}, input.ErrEmpty
	}
	for i := range kinds {
		f := &s.fields[i]
		f.Kind, f.Type, f.Length, f.Digits = kinds[i].kind(), kinds[i].String(), kinds[i].length, kinds[i].digits()
		f.Advice = kinds[i].advice()
	}
	s.closed, s.leaves = true, o.Mode == layout.Predicting || o.Text != "" || len(o.Columns.Use) > 0
	return format.Table{Source: s, HasNames: true}, nil
}

// Fields implements tabular.Source.
func (s *jsonSource) Fields() []tabular.Field { return s.fields }

// Read implements tabular.Source.
func (s *jsonSource) Read(n int, _ []bool, b *tabular.Block) error {
	b.Reset(len(s.fields))
	for bytes := 0; b.Rows < n && bytes < tabular.BlockBytes; b.Rows++ {
		var next jsonRow
		if len(s.ahead) > 0 {
			next, s.ahead = s.ahead[0], s.ahead[1:]
		} else {
			var err error
			if next, err = s.read(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		bytes += next.bytes
		b.Cells, b.Lines = append(b.Cells, next.cells), append(b.Lines, next.line)
	}
	return nil
}

// read reads the next line that is not blank.
func (s *jsonSource) read() (next jsonRow, err error) {
	for {
		line, err := s.ReadLine()
		if err != nil {
			return next, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := value.CheckJSON(line); errors.Is(err, value.ErrNotUTF8) {
			return next, s.FailLine(s.options.NotUTF8(err, true))
		} else if err != nil {
			return next, s.FailLine(err)
		}
		cells, err := s.members(bytes.Clone(line)) // cells are parts of the line, whose buffer is reused
		if err != nil {
			return next, s.FailLine(err)
		}
		return jsonRow{s.Line, len(line), cells}, nil
	}
}

// members returns the values of an object, in column order. While the first rows are read it adds columns.
func (s *jsonSource) members(line []byte) ([]tabular.Cell, error) {
	if line[0] != '{' {
		return nil, fmt.Errorf("%s: expected an object with a value for each column", value.Quote(string(line)))
	}
	cells := make([]tabular.Cell, len(s.fields))
	add := func(name string) (at int) {
		at, s.places[name] = len(s.fields), len(s.fields)
		s.fields, cells = append(s.fields, tabular.Field{Name: name}), append(cells, tabular.Cell{})
		return at
	}
	err := value.Cell(line).Each(func(name []byte, cell value.Cell) error {
		at, known := s.places[string(name)]
		switch {
		case !known && s.closed && s.leaves:
			return nil
		case !known && s.closed:
			return fmt.Errorf("a column %s, which is missing in the first %d rows: "+
				"list the feature columns under examples.columns.use", value.Quote(string(name)), schemaRows)
		case !known:
			at = add(string(name))
		}
		cells[at] = tabular.JSON(cell)
		return nil
	})
	if err != nil || len(s.within) == 0 {
		return cells, err
	}
	found := make([]tabular.Cell, len(s.within))
	err = s.paths.Read(tabular.JSON(line), found)
	for i, name := range s.within {
		at, known := s.places[name]
		if !known && (s.closed || !s.paths.Has(i)) {
			continue
		}
		if !known {
			at = add(name)
		}
		cells[at] = found[i]
	}
	return cells, err
}

// jsonKinds records the kinds of a column's values.
type jsonKinds struct {
	seen   int          // bitmap of kinds
	length int          // length of the first list of numbers
	word   tabular.Cell // the first string that is not a number; null: none
}

// see records the kind of a value. Null and empty lists have none.
func (k *jsonKinds) see(cell tabular.Cell, missing value.Missing) {
	kind, length := cell.Kind()
	if kind == tabular.None {
		return
	}
	k.seen |= 1 << kind
	if kind == tabular.List {
		k.length = cmp.Or(k.length, length)
	}
	if _, err := cell.Number(missing); kind == tabular.Text && err != nil && k.word.Null() {
		k.word = cell
	}
}

// kind returns the kind of a column with these values: Text includes numbers, and TextList lists of numbers.
func (k *jsonKinds) kind() tabular.Kind {
	const numbers = 1<<tabular.Whole | 1<<tabular.Numeric | 1<<tabular.Boolean
	switch {
	case k.seen == 1<<tabular.Whole:
		return tabular.Whole
	case k.seen == 1<<tabular.Boolean:
		return tabular.Boolean
	case k.seen&^numbers == 0:
		return tabular.Numeric
	case k.seen&^numbers == 1<<tabular.Text:
		return tabular.Text
	case k.seen == 1<<tabular.List:
		return tabular.List
	case k.seen&^(1<<tabular.List) == 1<<tabular.TextList:
		return tabular.TextList
	case k.seen == 1<<tabular.Pairs:
		return tabular.Pairs
	}
	return tabular.Unread
}

// digits reports whether all strings of the column are numbers.
func (k *jsonKinds) digits() bool { return k.kind() == tabular.Text && k.word.Null() }

// advice returns the advice for a column of numbers and words; "" for another one.
func (k *jsonKinds) advice() string {
	if k.kind() != tabular.Text || k.word.Null() || k.seen == 1<<tabular.Text {
		return ""
	}
	return fmt.Sprintf("examples.missing_values lists the words for a missing value, if %s is one", &k.word)
}

// String lists the kinds for error messages.
func (k *jsonKinds) String() string {
	var names []string
	for i, name := range []string{tabular.Unread: "object", tabular.Numeric: "number", tabular.Whole: "whole number",
		tabular.Boolean: "boolean", tabular.Text: "string", tabular.List: "list of numbers", tabular.TextList: "list of strings",
		tabular.Pairs: "list of index and value"} {
		if k.seen&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "null"
	}
	return english.WordSeries(names, "and")
}

// jsonName is the name of the format, which other things have too.
const jsonName = "json"

// JSON is JSON (RFC 8259) in messages: an object with a value for each column, or an array of such objects. Columns
// that no key names are not read. If columns.use names a single column, that may be an array of all features.
func JSON() format.Format {
	return format.Format{
		Name:    jsonName,
		Meaning: format.Meaning,
		Label:   format.Label,
		IsText:  true,
		Decoder: func(o format.Options) (format.Decoder, error) {
			return format.Decoder{Decode: func(_ context.Context, p format.Payload) (tabular.Cell, error) {
				content := bytes.TrimSpace(p.Value)
				if err := value.CheckJSON(content); errors.Is(err, value.ErrNotUTF8) {
					return tabular.Cell{}, o.NotUTF8(err, true)
				} else if err != nil {
					return tabular.Cell{}, err
				}
				return tabular.JSON(content), nil
			}}, nil
		},
	}
}
