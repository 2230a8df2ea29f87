package solver

import (
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// memberStages returns the stages of a stage's member, as returned by withRidges.
func (s *Solver) memberStages(number int) []schemas.Stage {
	n := s.plan.MemberStages()
	first := number - number%n
	return s.withRidges(number)[first : first+n]
}

// withRidges returns the stages of the plan for the fit of one of them, with the numbers of the auto ridges that are
// known. A ridge is known, in this order, from
//
//   - the stage's own weights, published by another solver;
//   - the version that the stage starts from, so that the penalty on its weights does not change;
//   - the first equal stage.
func (s *Solver) withRidges(number int) []schemas.Stage {
	stage := s.plan.Stages[number]
	if stage.Ridge != schemas.RidgeAuto {
		return s.plan.Stages
	}
	known := slices.Clone(s.plan.Stages)
	known[number].Ridge = s.knownRidge(number)
	return known
}

// knownRidge returns the ridge of a stage, or auto if it is not chosen yet.
func (s *Solver) knownRidge(number int) schemas.Ridge {
	if ridge, chosen := s.chain.Ridge(number); chosen {
		return ridge
	}
	if stages.Grown(s.plan.Stages[number].Features) {
		return solve.GrownRidge
	}
	if ridge, begins := s.chain.InitialRidge(number); begins {
		return ridge
	}
	if first := slices.IndexFunc(s.plan.Stages, func(t schemas.Stage) bool { return solve.Alike(t, s.plan.Stages[number]) }); first < number {
		return s.knownRidge(first)
	}
	return schemas.RidgeAuto
}
