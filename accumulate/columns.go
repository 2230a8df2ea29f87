package accumulate

import (
	"maps"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
)

// ColumnRows counts for each column of sparse rows in how many of them it is not 0. Counts form a commutative monoid. It takes memory for
// the columns that occur, not for those below them. The zero value has counted nothing.
type ColumnRows struct {
	pages map[int32]*[columnPage]uint32
}

// columnPage is how many columns are counted side by side. Columns that are often not 0 have small numbers in most data. Those of hashes
// are anywhere, and most pages have one of them: with 1024 counts a page, updates counted 2²⁴ columns in 64 MB.
const columnPage = 64

// Add counts a row that has these columns, each once.
func (c *ColumnRows) Add(columns []int32) {
	var page *[columnPage]uint32
	at := int32(-1)
	for _, column := range columns {
		if number := column / columnPage; number != at {
			page, at = c.page(number), number
		}
		page[column%columnPage]++
	}
}

func (c *ColumnRows) page(number int32) *[columnPage]uint32 {
	if page := c.pages[number]; page != nil {
		return page
	}
	if c.pages == nil {
		c.pages = map[int32]*[columnPage]uint32{}
	}
	page := new([columnPage]uint32)
	c.pages[number] = page
	return page
}

// Merge adds the counts of o.
func (c *ColumnRows) Merge(o *ColumnRows) {
	for number, theirs := range o.pages {
		mine := c.page(number)
		for i, n := range theirs {
			mine[i] += n
		}
	}
}

// Record returns the counts that are not 0, in the order of the columns.
func (c *ColumnRows) Record() (counts []examples.ColumnRows) {
	for _, number := range slices.Sorted(maps.Keys(c.pages)) {
		for i, n := range c.pages[number] {
			if n > 0 {
				counts = append(counts, examples.ColumnRows{Column: number*columnPage + int32(i), Rows: n})
			}
		}
	}
	return counts
}

// MergeRecord adds counts that a record has.
func (c *ColumnRows) MergeRecord(counts []examples.ColumnRows) {
	for _, n := range counts {
		c.page(n.Column / columnPage)[n.Column%columnPage] += n.Rows
	}
}
