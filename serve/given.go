package serve

// given is the predicted classes of rows: one each, or in a multi-label task those whose probability is above a threshold.
// It takes four bytes per row, or a bit per class.
type given struct {
	classes   int                                 // number of classes of the model; 0: regression
	several   bool                                // multi-label
	threshold float64                             // of a multi-label model
	decide    func(probabilities []float32) int32 // for single-label models
	rows      int
	one       []int32
	bits      []uint64 // words() for each row
}

func newGiven(v *version) *given {
	if v.predictsNumbers() {
		return &given{}
	}
	g := &given{classes: len(v.Labels()), decide: v.Decide}
	if g.several = v.givesSeveral(); g.several {
		g.threshold = v.Threshold()
	}
	return g
}

// words is the number of words for the bits of a row.
func (g *given) words() int { return (g.classes + 63) / 64 }

// bytes returns the memory of the rows.
func (g *given) bytes() int { return 4*len(g.one) + 8*len(g.bits) }

// add adds a row with these probabilities (k).
func (g *given) add(probabilities []float32) {
	g.rows++
	if g.classes == 0 { // regression
		return
	}
	if !g.several {
		g.one = append(g.one, g.decide(probabilities))
		return
	}
	from := len(g.bits)
	for range g.words() {
		g.bits = append(g.bits, 0)
	}
	for c, v := range probabilities {
		if float64(v) >= g.threshold {
			g.bits[from+c/64] |= 1 << (c % 64)
		}
	}
}

// of calls with for each predicted class of a row, in order.
func (g *given) of(row int, with func(class int)) {
	switch {
	case g.classes == 0:
		return
	case !g.several:
		with(int(g.one[row]))
		return
	}
	for w, word := range g.bits[row*g.words() : (row+1)*g.words()] {
		for c := 64 * w; word != 0; c, word = c+1, word>>1 {
			if word&1 != 0 {
				with(c)
			}
		}
	}
}

// reset removes all rows.
func (g *given) reset() { g.rows, g.one, g.bits = 0, g.one[:0], g.bits[:0] }
