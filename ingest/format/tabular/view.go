package tabular

import (
	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
)

// view shows the columns and cells of a table.
func (r *tableReader) view(v format.Viewer) (err error) {
	defer damaged(r.Name, &err)
	columns := make([]format.Column, len(r.fields))
	for at, f := range r.fields {
		number := IsNumber(f.Kind) || f.Digits
		columns[at] = format.Column{Name: f.Name, Type: f.Type, Numbers: number, Words: number || f.Kind == Text, List: f.Kind == List}
	}
	v.Columns(columns)
	for rows := 0; ; {
		n, err := r.table.Begin(columnRows)
		switch {
		case err != nil:
			return r.fail(-1, err)
		case n == 0 && rows == 0:
			return r.fail(-1, input.EmptyError("no rows"))
		case n == 0:
			return nil
		}
		rows += n
		for at, column := range columns {
			if !column.Words {
				continue
			}
			err := r.table.Texts(at, func(_ int, text string, null bool) error {
				if null {
					text = ""
				}
				v.Cell(at, text)
				return nil
			})
			if err != nil {
				return r.fail(at, err)
			}
		}
	}
}
