package serve

// given is which classes rows are given: one each, or of several labels a row those whose probability is above a
// threshold. It takes four bytes a row, or a bit a class, so that an answer that is sent in pieces can name the labels
// at its end.
type given struct {
	classes   int                                 // of the model; 0: it predicts numbers
	several   bool                                // a row may have any number of labels
	threshold float64                             // of several labels
	decide    func(probabilities []float32) int32 // of one label
	rows      int
	one       []int32
	bits      []uint64 // words() of each row
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

// words is how many words the bits of a row take.
func (g *given) words() int { return (g.classes + 63) / 64 }

// bytes returns how many bytes of memory so many rows take.
func (g *given) bytes(rows int) int64 {
	switch {
	case g.classes == 0:
		return 0
	case g.several:
		return 8 * int64(g.words()) * int64(rows)
	}
	return 4 * int64(rows)
}

// add adds a row with these probabilities (k).
func (g *given) add(probabilities []float32) {
	g.rows++
	if g.classes == 0 { // of numbers
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

// of calls with for each class that a row is given, in their order.
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

// reset forgets all rows.
func (g *given) reset() { g.rows, g.one, g.bits = 0, g.one[:0], g.bits[:0] }
