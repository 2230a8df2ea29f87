package schemas

import (
	"slices"
	"testing"
)

// A plan has as many stages of each member, one member after the other.
func TestMembers(t *testing.T) {
	p := plan()
	p.Stages = slices.Repeat(p.Stages, 6)
	for _, average := range []int{-1, 1, 4, 7} {
		if p.Average = average; p.Check() == nil {
			t.Errorf("six stages of %d members are a plan", average)
		}
	}
	for average, want := range map[int][3][]int{ // where members begin, where they end, and after which stages some have voted
		0: {{0}, {5}, nil},
		2: {{0, 3}, {2, 5}, {2, 3, 4, 5}},
		6: {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}},
	} {
		if p.Average = average; p.Check() != nil {
			t.Errorf("six stages of %d members are no plan", average)
		}
		var got [3][]int
		for s := range p.Stages {
			for i, holds := range []bool{p.BeginsMember(s), p.EndsMember(s), p.Votes(s)} {
				if holds {
					got[i] = append(got[i], s)
				}
			}
			if first := want[0][p.Member(s)]; s < first || s >= first+p.MemberStages() {
				t.Errorf("average %d: stage %d is of member %d", average, s, p.Member(s))
			}
		}
		for i := range got {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("average %d: %v, expected %v", average, got, want)
			}
		}
	}
}
