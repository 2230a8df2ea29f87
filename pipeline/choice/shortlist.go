package choice

import (
	"errors"
	"slices"
)

// comparedAfter is the number of stages after which candidates with more stages are compared. On one split of fifteen tables, trees
// and trees after Fourier features have the same order after six stages as after 30; on krkopt they don't after four.
const comparedAfter = 6

// shortlist returns the candidates to train in full: those with few stages, and of the others only the one with the lowest
// loss after comparedAfter stages (successive halving, Jamieson and Talwalkar 2016). search trains candidates.
func shortlist(candidates []candidate, search func([]candidate) (found, error)) ([]candidate, error) {
	var list, long, begun []candidate
	for _, c := range candidates {
		if len(c.stages) <= comparedAfter {
			list = append(list, c)
			continue
		}
		long = append(long, c)
		c.stages = c.stages[:comparedAfter]
		begun = append(begun, c)
	}
	if len(long) < 2 {
		return candidates, nil
	}
	leader, err := search(begun)
	if errors.Is(err, errNoCandidate) && len(list) > 0 {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	return append(list, long[slices.IndexFunc(long, func(c candidate) bool { return c.name == leader.name })]), nil
}
