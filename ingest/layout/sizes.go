package layout

import "github.com/stagewise/stagewise/schemas/wire"

const (
	// MaxBatchBytes is the maximum size of the rows of a message. It leaves 10 KB for the schema, the framing and the padding
	// of the columns, which together take less than 3.
	MaxBatchBytes = wire.MaxMessage - 10_000
	// rowOverhead is the size of a row without its features and the text of its label: label 8 (number, or offset of the
	// text), weight 4, split 4 and its text 7, and less than 1 for the validity of all of them.
	rowOverhead = 24
)

// ByteRowBytes is the size of a row of uint8 features in a message.
func ByteRowBytes(cols int) int { return cols + rowOverhead }

// FloatRowBytes is the size of a row of float32 features in a message, with a validity bit for each, without the text of
// its label.
func FloatRowBytes(cols int) int { return 4*cols + (cols+7)/8 + rowOverhead }
