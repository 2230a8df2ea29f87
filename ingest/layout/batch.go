package layout

import (
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Batch is the rows read so far for an examples message. The zero value has none.
type Batch struct {
	Examples examples.Rows
	Lacks    [][]bool // by column: which rows have no value; nil: it is not watched
	sizes    []int    // of the message after each row
}

// Len returns the number of rows.
func (b *Batch) Len() int { return b.Examples.Rows }

// Take returns the rows, which are valid until others are added, and removes them.
func (b *Batch) Take() *examples.Rows {
	taken := b.Examples
	if taken.Sparse != nil {
		taken.Sparse = new(*taken.Sparse)
	}
	b.Cut(0)
	return &taken
}

// Cut truncates the batch to a number of rows.
func (b *Batch) Cut(rows int) {
	if rows == 0 {
		b.Examples.Reset()
	} else if rows < b.Len() {
		b.Examples = *b.Examples.Slice(0, rows)
	}
	b.sizes = b.sizes[:rows]
	for at, lacks := range b.Lacks {
		b.Lacks[at] = lacks[:min(rows, len(lacks))]
	}
}

// MostRows returns the maximum number of rows of a message. Large labels or sparse values leave room for fewer.
func (l *Layout) MostRows() int { return max(1, (MaxBatchBytes-len(l.TableText))/l.leastBytes()) }

// Full reports whether no further row fits the message of a batch.
func (l *Layout) Full(b *Batch) bool {
	return b.Len() > 0 && l.sizeIn(b)+l.leastBytes() > MaxBatchBytes
}

// sizeIn returns the size of the message of a batch.
func (l *Layout) sizeIn(b *Batch) int {
	if n := len(b.sizes); n > 0 {
		return b.sizes[n-1]
	}
	return len(l.TableText)
}

// Append appends rows from the start of a block to a batch of rows of the layout, until its message is full, and returns their number.
// beside returns the size of the data of a row in the message other than its columns. If some rows are invalid, it appends none.
func (l *Layout) Append(to *Batch, b *tabular.Block, beside func(row int) int) (added int, troubles []Trouble) {
	before, size := to.Len(), l.sizeIn(to)
	if before == 0 {
		to.Lacks = make([][]bool, len(l.Cells))
	}
	troubles = l.Fill(b, &to.Examples)
	for row := 0; row < b.Rows && troubles == nil; row++ {
		bytes, err := l.sizeOf(&to.Examples, before+row)
		if err != nil {
			troubles = []Trouble{{row, max(l.Label, l.Text), err}}
		}
		if size += bytes + beside(row); size <= MaxBatchBytes {
			to.sizes = append(to.sizes, size)
		}
	}
	if troubles == nil {
		added = len(to.sizes) - before
	}
	to.Cut(before + added)
	rows := b.Part(0, added)
	for at := range l.Cells {
		if l.watched(at) {
			to.Lacks[at] = l.withoutValue(to.Lacks[at], &rows, &to.Examples, at)
		}
	}
	return added, troubles
}
