package ingest

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// role is what a column is for.
type role uint8

const (
	feature  role = iota // a number
	category             // a word, of which several features are made
	label
	weight
	ignored
)

// cell says what becomes of a column.
type cell struct {
	role  role
	at    int            // of a feature, or of the first of a category: its place among the features
	words schemas.Column // of a category
	index map[string]int // of a category: the place of the feature of each word
}

// openCSV reads examples with their labels.
func openCSV(files []*content, o Options) (reader, error) {
	r, err := newCSVReader(files[0], o, o.hasHeader())
	if err != nil {
		return nil, err
	}
	if err := r.assign(); err != nil {
		return nil, err
	}
	for at := range r.cells {
		if r.cells[at].role != category {
			continue
		}
		name := r.nameOf(at)
		if r.cells[at].words = (schemas.Column{Name: name, Categories: o.categories[name]}); len(o.categories[name]) == 0 {
			return nil, r.fail(at, errors.New("its categories are not known: they are found in the files under examples.train"))
		}
	}
	for at := range r.cells {
		if cell := r.cells[at]; (cell.role == feature || cell.role == category) && r.header != nil && r.header[at] == "" {
			return nil, r.fail(at, fmt.Errorf("a column without a name in the header, as the index of a data frame has none: leave it out with examples.columns.drop: [%d], or give it a name", at))
		}
	}
	return r, r.lay()
}

// assign gives each column its role for training.
func (r *csvReader) assign() (err error) {
	o := r.options
	if len(o.Columns.Use) > 0 {
		for at := range r.cells {
			r.cells[at].role = ignored
		}
		for _, c := range o.Columns.Use {
			if err := r.give(Column(c), feature); err != nil {
				return err
			}
		}
	}
	for _, c := range o.Columns.Drop {
		if err := r.give(Column(c), ignored); err != nil {
			return err
		}
	}
	for _, c := range o.Categorical {
		if err := r.give(Column(c), category); err != nil {
			return err
		}
	}
	if r.labelColumn, err = r.column(csvLabel(o)); err != nil {
		return err
	}
	r.cells[r.labelColumn].role = label
	if o.Weight != "" {
		at, err := r.column(o.Weight)
		if err != nil {
			return err
		}
		if at == r.labelColumn {
			return r.fail(at, errors.New("both the label and the weight"))
		}
		r.cells[at].role = weight
	}
	return nil
}

// give gives a column a role.
func (r *csvReader) give(c Column, role role) error {
	at, err := r.column(c)
	if err == nil {
		r.cells[at].role = role
	}
	return err
}

// newCSVReader reads the header, or the first row if there is none. Until the
// caller gives them other roles, all columns are features.
func newCSVReader(c *content, o Options, header bool) (*csvReader, error) {
	r := &csvReader{content: c, options: o, labelColumn: -1, words: map[string]string{}, missing: map[string]bool{}}
	for _, class := range o.Classes {
		r.words[class] = class
	}
	for _, word := range o.MissingValues {
		r.missing[word] = true
	}
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
	first, err := firstRows(c)
	if err != nil {
		return nil, err
	}
	comma, err := o.delimiter(c.name, first)
	if err != nil {
		return nil, err
	}
	r.limit = &rowLimit{from: c}
	r.parser = newCSVParser(r.limit, comma)
	err = r.read()
	if err == io.EOF {
		return nil, wholeFile(c.name, errors.New("an empty file"))
	}
	if err != nil {
		return nil, err
	}
	r.cells = make([]cell, len(r.record))
	if !header {
		r.pending = true
		return r, nil
	}
	r.empty = true
	r.header = make([]string, len(r.record))
	for i, name := range r.record {
		r.header[i] = strings.Clone(strings.TrimSpace(name))
	}
	return r, nil
}

// newCSVParser returns a parser of rows. Each row may have another number of columns: the reader checks it, and its error says how
// many are expected.
func newCSVParser(from io.Reader, comma rune) *csv.Reader {
	parser := csv.NewReader(from)
	parser.Comma = comma
	parser.ReuseRecord = true
	parser.FieldsPerRecord = -1
	parser.TrimLeadingSpace = comma != '\t'
	return parser
}

// nameOf returns the name of a column: its number if there is no header.
func (r *csvReader) nameOf(at int) string {
	if r.header == nil {
		return fmt.Sprint(at)
	}
	return r.header[at]
}

// column returns the number of a column that is given by number or name.
func (r *csvReader) column(c Column) (int, error) {
	at, isNumber := c.number()
	if isNumber {
		if at >= len(r.cells) {
			return 0, r.fail(at, fmt.Errorf("there are %d columns, counted from 0", len(r.cells)))
		}
		return at, nil
	}
	at = -1
	for i, name := range r.header {
		if name != string(c) {
			continue
		}
		if at >= 0 {
			return 0, r.fail(i, errors.New("the same name twice in the header"))
		}
		at = i
	}
	if at < 0 {
		return 0, r.fail(-1, fmt.Errorf("no column %s in the header", quote(string(c))))
	}
	return at, nil
}

// lay gives the features their places, in the order of the file's columns.
func (r *csvReader) lay() error {
	var table schemas.Columns
	for at := range r.cells {
		switch cell := &r.cells[at]; cell.role {
		case feature:
			cell.at = r.batch.Cols
			r.batch.Cols++
			table = append(table, schemas.Column{Name: r.nameOf(at)})
		case category:
			cell.place(r.batch.Cols, cell.words)
			r.batch.Cols += cell.words.Features()
			table = append(table, cell.words)
		}
	}
	if r.header != nil || slices.ContainsFunc(r.cells, func(c cell) bool { return c.role == category }) {
		if err := table.Check(); err != nil {
			return r.fail(-1, errors.New("two columns have the same name in the header: rename one, or leave it out with examples.columns.drop and its number"))
		}
		r.table = table
	}
	return r.finish()
}

// place gives a column of words its places among the features, from at on.
func (c *cell) place(at int, column schemas.Column) {
	c.role, c.at, c.words, c.index = category, at, column, make(map[string]int, len(column.Categories))
	for i, word := range column.Categories {
		c.index[word] = at + i
	}
}

// finish checks the features, once all have their places.
func (r *csvReader) finish() error {
	r.batch.Columns, r.columnsText = r.table, r.table.Text()
	switch size := floatRowBytes(r.batch.Cols) + len(r.columnsText); {
	case r.batch.Cols == 0:
		return r.fail(-1, errors.New("no column is a feature"))
	case size > maxBatchBytes && floatRowBytes(r.batch.Cols) <= maxBatchBytes:
		return r.fail(-1, fmt.Errorf("an example of %d features and the names of the columns do not fit a message of %d bytes: shorten the names", r.batch.Cols, schemas.MaxMessage))
	case size > maxBatchBytes:
		return r.fail(-1, fmt.Errorf("an example of %d features does not fit a message of %d bytes", r.batch.Cols, schemas.MaxMessage))
	}
	return nil
}
