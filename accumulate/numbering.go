package accumulate

import "math/bits"

// numbering has a number for each column that occurs: by its place if there are few columns, otherwise in a hash table. By place, ten
// million columns would take 40 MB for each goroutine that sums. The zero value is ready for begin.
type numbering struct {
	byPlace []int32
	table   []numbered // open addressing; the length is a power of two, and at most half of it is taken
	hashed  bool
	columns int // of which some may have a number
}

// numbered is the number of a column.
type numbered struct {
	column int32 // plus 1; 0: free
	number int32
}

// numberedByPlace is how many columns have a number by their place: 4 MB.
const numberedByPlace = 1 << 20

// begin makes room for the numbers of at most so many of the columns. All are 0.
func (n *numbering) begin(columns, occurring int) {
	n.columns = columns
	if n.hashed = columns > max(numberedByPlace, 4*occurring); !n.hashed {
		if len(n.byPlace) < columns {
			n.byPlace = make([]int32, columns)
		}
		return
	}
	if size := 1 << bits.Len(uint(2*occurring)); len(n.table) < size {
		n.table = make([]numbered, size)
	}
}

// of returns where the number of a column is, until the next call.
func (n *numbering) of(column int32) *int32 {
	if !n.hashed {
		return &n.byPlace[column]
	}
	mask := uint32(len(n.table) - 1)
	for i := uint32(column) * 2654435769 >> 7 & mask; ; i = (i + 1) & mask { // Knuth's multiplicative hash
		switch at := &n.table[i]; at.column {
		case 0:
			at.column = column + 1
			return &at.number
		case column + 1:
			return &at.number
		}
	}
}

// end makes the numbers of these columns 0, which are all that have one.
func (n *numbering) end(columns []int32) {
	if n.hashed {
		clear(n.table)
		return
	}
	for _, column := range columns {
		n.byPlace[column] = 0
	}
}
