package layout

import "github.com/stagewise/stagewise/schemas/wire"

const (
	// MaxBatchBytes is the maximum size of the rows of a message. It leaves 10 KB
	// for the schema, the framing and the padding of the columns, which
	// together take less than 3.
	MaxBatchBytes = wire.MaxMessage - 10_000
	// rowOverhead is how many bytes a row takes beside its features and the text
	// of its label: label 8 (number, or offset of the text), weight 4, split 4
	// and its text 7, and less than 1 for the validity of all of them.
	rowOverhead = 24
)

// ByteRowBytes is how many bytes of a message a row of uint8 features takes.
func ByteRowBytes(cols int) int { return cols + rowOverhead }

// FloatRowBytes is how many bytes of a message a row of float32 features takes,
// with a bit for the validity of each, without the text of its label.
func FloatRowBytes(cols int) int { return 4*cols + (cols+7)/8 + rowOverhead }
