package choice

import (
	"errors"
	"math"
	"slices"
)

// comparedAfter is the number of stages after which trees that follow features of another kind end, if trees alone have a lower
// loss by then. Such features give a lead, which trees alone catch up with: on one to three splits of fifteen tables, candidates
// that were behind after six stages were behind after all. On krkopt this is not so after four stages; and candidates that
// were ahead were not always ahead after all.
const comparedAfter = 6

// bestOf returns the candidate with the lowest loss. search trains candidates.
func bestOf(candidates []candidate, search func([]candidate) (found, error)) (best found, err error) {
	opens := func(c candidate) bool { return c.opened }
	if best, err = search(slices.DeleteFunc(slices.Clone(candidates), opens)); err != nil {
		return best, err
	}
	for _, c := range candidates {
		if !c.opened {
			continue
		}
		begun := c
		begun.stages = c.stages[:min(len(c.stages), comparedAfter)]
		ahead, err := search([]candidate{begun})
		if errors.Is(err, errNoCandidate) || err == nil && !(ahead.loss < lowestUntil(best.losses, comparedAfter)) {
			continue
		}
		if err != nil {
			return best, err
		}
		whole, err := search([]candidate{c})
		if err != nil {
			return best, err
		}
		if whole.loss < best.loss {
			best = whole
		}
	}
	return best, nil
}

// lowestUntil returns the lowest loss after one of the first stages; +Inf if there is none.
func lowestUntil(losses []heldOutLoss, stages int) float64 {
	losses = losses[:min(len(losses), stages)]
	if at := lowest(losses, 1); at >= 0 {
		return losses[at].loss
	}
	return math.Inf(1)
}
