package csv

import "strings"

// blankRows finds the empty lines of a CSV of one column, which the parser passes over: each is a row without a value.
// The last line of a file is empty only if another line end follows the end of the line before.
type blankRows struct {
	line    int      // the last line of the row read last; 0: there is none
	lead    int      // blank rows before the first row
	left    int      // blank rows to return before the next
	held    []string // the row after them; nil: the file ends there
	current bool     // the row returned last is blank
}

// next returns the next blank row, or the row that they came before.
func (b *blankRows) next() (record []string, line int, ok bool) {
	switch b.current = b.left > 0; {
	case b.current:
		b.left--
		b.line++
		return []string{""}, b.line, true
	case b.held != nil:
		record, line, b.held = b.held, b.line+1, nil
		b.line += linesOf(record)
		return record, line, true
	}
	return nil, 0, false
}

// first takes the first row, which begins at a line: blank rows before it come before it if it is a row, and not the names of columns.
func (b *blankRows) first(record []string, line int) {
	b.lead, b.line = line-1, line-1+linesOf(record)
}

// begin makes the blank rows before the first row come next, and that row after them. It reports whether there are any.
func (b *blankRows) begin(record []string) bool {
	if b.lead > 0 {
		b.left, b.held, b.line, b.lead = b.lead, record, 0, 0
	}
	return b.left > 0
}

// before takes a row that begins at a line, and reports whether blank rows come before it.
func (b *blankRows) before(record []string, line int) bool {
	if b.left = line - b.line - 1; b.left > 0 {
		b.held = record
		return true
	}
	b.line += linesOf(record)
	return false
}

// ends takes the number of lines of the file, and reports whether it ends with blank rows.
func (b *blankRows) ends(lines int) bool {
	b.left = lines - b.line
	return b.left > 0
}

// linesOf returns how many lines a row of one column has.
func linesOf(record []string) int { return 1 + strings.Count(record[0], "\n") }
