package worker

// gramSample chooses whole messages that have about rows of the of training rows. It spreads them evenly along each partition,
// and begins at another message in each partition.
type gramSample struct{ rows, of int64 }

// newGramSample returns a sample of about rows out of all training rows, of which there are of.
func newGramSample(rows, of int64) *gramSample {
	for of >= 1<<30 { // products with ordinals must fit an int64; only the ratio counts
		rows, of = max(rows/2, 1), of/2
	}
	return &gramSample{rows, of}
}

// has reports whether a message is in the sample. partition is the ordinal of its partition in the plan, message its own
// ordinal there. The first message of the plan is in every sample.
//
// The sample has the fraction rows/of of the messages before any place of a partition, up to rounding, which begins at a phase.
// The phase of partition 0 takes its first message. The golden section spreads the phases of the others, however many there are.
func (g *gramSample) has(partition int, message int64) bool {
	step := int64(float64(g.of) * 0.6180339887498949)
	phase := (g.of - g.rows + int64(partition)%g.of*step) % g.of
	return ((message+1)*g.rows+phase)/g.of > (message*g.rows+phase)/g.of
}
