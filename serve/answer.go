package serve

// A short answer is completed before it is sent, so that any error in a request gives an error response. A longer one is
// sent in chunks after the whole request has been read: for n rows and k classes it has n·k numbers, which may be a
// thousand times the request.

// keptAnswer is the number of bytes of an answer that are buffered until the whole request is validated.
const keptAnswer = 512 << 10

// pieceValues is the approximate number of values in a chunk of an answer: half a MiB of JSON. A row is not split.
const pieceValues = 1 << 15

// encoder encodes an answer. Rows are added in order.
type encoder interface {
	// add appends n predicted rows. Data buffered for later counts in kept.
	add(dst []byte, of *predicted, n int) ([]byte, error)
	// kept returns the number of buffered bytes that are not in dst yet.
	kept() int
	// whole returns the complete answer, with the added rows in dst, in pieces.
	whole(dst []byte) (pieces [][]byte, err error)
	// opening returns the part of a chunked answer before the rows.
	opening() []byte
	// closing calls send with the part after the rows, in pieces.
	closing(send func([]byte) error) error
}

// newEncoder returns the encoder of an answer with a content type by a version.
func newEncoder(v *version, kind string, a asked) encoder {
	if kind == typeArrow {
		return newArrowAnswer(v, a)
	}
	return &jsonAnswer{version: v, asked: a, given: newGiven(v)}
}
