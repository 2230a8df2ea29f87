package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a table on a terminal, with two spaces between columns. The zero value has no rows.
type Table struct {
	Right bool // columns after the first are aligned right, but bars
	Width int  // of lines: the last cells of rows are cut; 0: they are not
	rows  [][]string
}

// Row adds a row of cells, which are formatted as by fmt.Sprint.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.rows = append(t.rows, row)
}

// Write writes all rows. A column is as wide as its longest cell; of a left-aligned table, the last cells of rows do not count.
func (t *Table) Write(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if t.Right || i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var out strings.Builder
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			if i > 0 {
				line += "  "
			}
			if t.Width > 0 && i == len(row)-1 {
				cell = Cut(cell, t.Width-utf8.RuneCountInString(line))
			}
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			if t.Right && i > 0 && !strings.HasPrefix(cell, "█") {
				line += pad + cell
			} else {
				line += cell + pad
			}
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Cut shortens a text to a number of characters, the last of which is then an ellipsis.
func Cut(text string, to int) string {
	if utf8.RuneCountInString(text) <= to {
		return text
	}
	return string([]rune(text)[:max(to-1, 0)]) + "…"
}
