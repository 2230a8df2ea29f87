package csv

import "strings"

// blankRows finds the empty lines of a CSV with one column, which the parser skips: each is a row without a value. The
// last line of a file counts as empty only if it ends with a line end of its own.
type blankRows struct {
	line    int      // last line of the last row; 0: none
	lead    int      // number of blank rows before the first row
	left    int      // number of blank rows to return before the next row
	held    []string // row after them; nil: end of file
	current bool     // the last returned row is blank
}

// next returns the next blank row, or the row after them.
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

// first records the first row, which starts at a line: blank rows before it count if it is a row, not a header.
func (b *blankRows) first(record []string, line int) {
	b.lead, b.line = line-1, line-1+linesOf(record)
}

// begin starts with the blank rows before the first row, followed by that row. It reports whether there are any.
func (b *blankRows) begin(record []string) bool {
	if b.lead > 0 {
		b.left, b.held, b.line, b.lead = b.lead, record, 0, 0
	}
	return b.left > 0
}

// before records a row that starts at a line, and reports whether blank rows precede it.
func (b *blankRows) before(record []string, line int) bool {
	if b.left = line - b.line - 1; b.left > 0 {
		b.held = record
		return true
	}
	b.line += linesOf(record)
	return false
}

// ends receives the number of lines of the file, and reports whether it ends with blank rows.
func (b *blankRows) ends(lines int) bool {
	b.left = lines - b.line
	return b.left > 0
}

// linesOf returns the number of lines of a row with one column.
func linesOf(record []string) int { return 1 + strings.Count(record[0], "\n") }
