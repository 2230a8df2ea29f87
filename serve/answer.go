package serve

// encoder encodes an answer. Rows are added in order.
type encoder interface {
	// add appends n predicted rows to a piece of the answer.
	add(dst []byte, of *predicted, n int) ([]byte, error)
	// kept returns the number of bytes of the added rows that are not in a piece yet.
	kept() int
	// whole returns the pieces of the complete answer, given those of the rows.
	whole(rows [][]byte) (pieces [][]byte, err error)
}

// newEncoder returns the encoder of an answer with a content type by a version.
func newEncoder(v *version, kind string, a asked) encoder {
	if kind == typeArrow {
		return newArrowAnswer(v, a)
	}
	return &jsonAnswer{version: v, asked: a}
}
