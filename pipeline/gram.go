package pipeline

// gramSample chooses whole messages that have about so many of the training
// rows: evenly along each share, and of each share others.
type gramSample struct{ most, of int64 }

func newGramSample(most, of int64) *gramSample {
	for of >= 1<<30 { // their ratio is what counts, and products with ordinals have to fit
		most, of = max(most/2, 1), of/2
	}
	return &gramSample{most, of}
}

// has tells whether the message of that ordinal is in the sample, where share is
// the ordinal of its partition in the plan. The first message of the plan is in
// every sample.
//
// Along a share as many messages are taken as go into most/of of those passed,
// begun at a phase: that of share 0 takes the first, and the golden section
// spreads the others however many there are.
func (g *gramSample) has(share int, ordinal int64) bool {
	step := int64(float64(g.of) * 0.6180339887498949)
	phase := (g.of - g.most + int64(share)%g.of*step) % g.of
	return ((ordinal+1)*g.most+phase)/g.of > (ordinal*g.most+phase)/g.of
}
