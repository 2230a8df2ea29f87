package csv

import (
	"io"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
)

// csvView shows the cells of a CSV. Any of them may be a number or a word.
func csvView(c *input.Content, o layout.Options, v format.Viewer) error {
	r, err := newCSVReader(c, o)
	if err != nil {
		return err
	}
	if hasHeader(o) {
		if err := r.parseHeader(); err != nil {
			return err
		}
	}
	columns := make([]format.Column, len(r.Cells))
	for at := range columns {
		columns[at] = format.Column{Numbers: true, Words: true}
		if r.Names != nil {
			columns[at].Name = r.Names[at]
		}
	}
	v.Columns(columns)
	for {
		switch err := r.read(); {
		case err == io.EOF && r.empty:
			return r.fail(-1, input.EmptyError("no row follows the header"))
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		r.empty = false
		for at, cell := range r.record {
			if err := r.CheckText(cell); err != nil {
				return r.fail(at, err)
			}
			v.Cell(at, cell)
		}
	}
}
