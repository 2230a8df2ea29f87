package model

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
)

// member returns the parts of a model of one member of p. The features of its stages must not be drawn, as draws depend
// on a stage's number.
func (p *parts) member(number int) *parts {
	manifest, plan := *p.manifest, *p.manifest.Plan
	n := plan.MemberStages()
	first, end := number*n, (number+1)*n
	plan.Stages, plan.Average, manifest.Plan = plan.Stages[first:end], 0, &plan
	manifest.Blocks = slices.Clone(manifest.Blocks[first:end])
	for t := range manifest.Blocks {
		manifest.Blocks[t].Stage = t
	}
	return &parts{&manifest, p.preparation, p.weights[first:end]}
}

// A model of several members predicts the mean of what each of them predicts by itself, to the bit, whatever the link.
func TestAverageOfMembers(t *testing.T) {
	const d, n = 4, 65
	for _, links := range everyLink {
		for _, members := range []int{2, 3} {
			p := syntheticMembers(t, "columns", d, 0, members, links...)
			m := arrowtest.Must(p.model())(t)
			want := kernel.NewDense(n, 3)
			for i := range members {
				one := arrowtest.Must(p.member(i).model())(t)
				for j, v := range one.Predictor(nil).Probabilities(raw(n, d)).Data {
					want.Data[j] += v
				}
			}
			for j := range want.Data {
				want.Data[j] /= float32(members)
			}
			predictor := m.Predictor(nil)
			for range 2 { // memory of the first call is used again
				if got := predictor.Probabilities(raw(n, d)); !slices.Equal(got.Data, want.Data) {
					t.Errorf("%d members of %v: other probabilities than their mean", members, links)
				}
			}
			losses, predicted := make([]float32, n), make([]int32, n)
			measured := predictor.Measure(raw(n, d), link.Truth{Classes: make([]int32, n)}, losses, predicted)
			if !slices.Equal(measured.Data, want.Data) || slices.Min(losses) < 0 || slices.Max(losses) == 0 {
				t.Errorf("%d members of %v: measured other predictions, or losses %v", members, links, losses)
			}
			read := arrowtest.Must(Read(bytes.NewReader(file(t, m))))(t)
			if got := read.Predictor(nil).Probabilities(raw(n, d)); !slices.Equal(got.Data, want.Data) {
				t.Errorf("%d members of %v: the file predicts otherwise", members, links)
			}
		}
	}
}
