package solver

import (
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// memberStages returns the stages of the member that a stage belongs to, as withRidges has them.
func (s *Solver) memberStages(number int) []schemas.Stage {
	n := s.plan.MemberStages()
	first := number - number%n
	return s.withRidges(number)[first : first+n]
}

// withRidges returns the stages of the plan for the fit of one of them, in which a ridge that is auto but known has its number. In
// this order, it is known from
//
//   - the stage's own weights, which another solver has published;
//   - the version that the stage begins at, so that the penalty on its weights stays what it was;
//   - the first stage that is alike.
func (s *Solver) withRidges(number int) []schemas.Stage {
	stage := s.plan.Stages[number]
	if stage.Ridge != schemas.RidgeAuto {
		return s.plan.Stages
	}
	known := slices.Clone(s.plan.Stages)
	known[number].Ridge = s.knownRidge(number)
	return known
}

// knownRidge returns the ridge of a stage, or auto if it is yet to be chosen.
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
