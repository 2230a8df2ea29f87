package serve

// An answer that is short is made before it is sent, so that whatever is wrong with a request is a refusal. One that is
// longer is sent in pieces once all of the request has been read: of n rows and k classes it has n·k numbers, which may
// be a thousand times the request.

// keptAnswer is how many bytes of an answer are kept until it is known whether the whole request can be used.
const keptAnswer = 512 << 10

// pieceValues is about how many values a piece of an answer has: half a MiB of JSON. A row is in one piece.
const pieceValues = 1 << 15

// encoder writes an answer. Rows are given to add in their order.
type encoder interface {
	// add appends n rows, of which this is predicted. What it keeps for later counts in kept.
	add(dst []byte, of *predicted, n int) ([]byte, error)
	// kept returns how many bytes are kept that dst does not have yet.
	kept() int
	// whole returns the answer that has the rows that were added, which are in dst. It is all pieces together.
	whole(dst []byte) (pieces [][]byte, err error)
	// opening returns what comes before the rows of an answer that is sent in pieces.
	opening() []byte
	// closing calls send with what comes after them, in pieces.
	closing(send func([]byte) error) error
}

// newEncoder returns the encoder of an answer of a type by a version.
func newEncoder(v *version, kind string, a asked) encoder {
	if kind == typeArrow {
		return newArrowAnswer(v, a)
	}
	return &jsonAnswer{version: v, asked: a, given: newGiven(v)}
}
