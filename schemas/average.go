package schemas

import "fmt"

// A plan may average several members: models that are trained independently, each from the beginning, and whose
// predictions are averaged. The stages of the plan are those of one member after the other. Random draws depend on the
// stage number, so no two members have the same random features.

// Members returns the number of models that the plan averages; 1 without averaging.
func (p *Plan) Members() int { return max(p.Average, 1) }

// MemberStages returns the number of stages of a member.
func (p *Plan) MemberStages() int { return len(p.Stages) / p.Members() }

// Member returns the member that a stage belongs to, both counted from 0.
func (p *Plan) Member(stage int) int { return stage / p.MemberStages() }

// BeginsMember reports whether a stage is the first of a member. The score before it is 0, and it may have an intercept.
func (p *Plan) BeginsMember(stage int) bool { return stage%p.MemberStages() == 0 }

// EndsMember reports whether a stage is the last of a member, so that its predictions are those of the member.
func (p *Plan) EndsMember(stage int) bool { return p.BeginsMember(stage + 1) }

// Votes reports whether the plan averages and some members are finished after a stage: the residuals after it then have votes.
func (p *Plan) Votes(stage int) bool { return p.Members() > 1 && stage+1 >= p.MemberStages() }

// checkAverage returns an error unless all members have the same number of stages.
func (p *Plan) checkAverage() error {
	if p.Average == 0 || p.Average > 1 && len(p.Stages)%p.Average == 0 {
		return nil
	}
	return fmt.Errorf("average is %d, of %d stages: expected at least 2 members, with as many stages each", p.Average, len(p.Stages))
}
