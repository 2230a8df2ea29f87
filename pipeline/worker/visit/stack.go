package visit

import (
	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// StackTerms stacks the sums of increments in a share into two tensors; in a full run, whose terms
// are separate records, into one. In a visit whose terms are not kept, they are summed, weighted by increment. The memory of the terms
// is returned to crosses, which may be nil.
func StackTerms(plan *schemas.Plan, s *model.Stage, visit int, sum *accumulate.Sum, crosses *accumulate.CrossPool) {
	if s.Link.Learnt {
		return
	}
	weights, apart := visitedWeights(plan, visit)
	p, k, m := s.Features.Size(), s.Classes, 0
	for i := range weights {
		if _, any := sum.Tensors().Find(statistics.Increment(i).Visited()); any {
			m++
		}
	}
	visited := sum.Field(statistics.FieldVisited, m, 5)
	var terms []float64
	update := plan.Update() != nil
	if !apart {
		m = min(m, 1)
	}
	if update && (apart || m > 0) {
		terms = sum.Field(statistics.FieldTerms, m, 2, p, k)
	}
	for i, at := range weights {
		of := statistics.Increment(i)
		losses, any := sum.Take(of.Visited())
		if !any {
			continue
		}
		visited[0] = float64(i)
		copy(visited[1:5], losses.Data)
		visited = visited[5:]
		if !update {
			continue
		}
		for j, name := range []string{of.Scores(), of.Cross()} {
			part, _ := sum.Tensors().Find(name)
			if to := terms[j*p*k:][:p*k]; apart {
				copy(to, part.Data)
			} else {
				floats.AddScaled(to, at, part.Data)
			}
			crosses.PutField(sum, name)
		}
		if apart {
			terms = terms[2*p*k:]
		}
	}
}

// visitedWeights returns the weight of each increment of a visit, and whether the terms of each are sent separately.
func visitedWeights(plan *schemas.Plan, visit int) (weights []float64, apart bool) {
	u := plan.Update()
	if u == nil {
		return make([]float64, max(len(plan.Chain.Increments), 1)), true
	}
	weights = []float64{1}
	for _, c := range u.Refresh {
		if u.Restart {
			c.Weight = 1
		}
		weights = append(weights, c.Weight)
	}
	return weights, schemas.KeepsTerms(visit, u.Passes)
}

// LeavingGram removes the Gram matrices of the rows that leave the window from the sums of a partition, and returns their
// weighted sum. Each is rounded as it was when the rows were added, so that exactly the added values are subtracted.
func LeavingGram(u *schemas.Update, sum *accumulate.Sum) (matrix []float64) {
	for i, c := range u.Leave {
		field, any := sum.Take(statistics.Increment(i).Leaving())
		if !any {
			continue
		}
		if matrix == nil {
			matrix = make([]float64, len(field.Data))
		}
		accumulate.AddRounded(matrix, c.Weight, field.Data)
	}
	return matrix
}
