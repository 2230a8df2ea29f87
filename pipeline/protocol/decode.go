package protocol

import (
	"fmt"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// DecodePlan decodes a valid plan, and returns it with its run id.
func DecodePlan(m wire.Message) (p *schemas.Plan, run string, err error) {
	if p, err = schemas.DecodeJSON[schemas.Plan](m); err == nil {
		err = checkPlan(p)
	}
	if err != nil {
		return nil, "", err
	}
	return p, p.Run(), nil
}

// DecodeManifest decodes a manifest with a valid plan.
func DecodeManifest(m wire.Message) (*schemas.Manifest, error) {
	manifest, err := schemas.DecodeJSON[schemas.Manifest](m)
	if err == nil {
		err = checkPlan(manifest.Plan)
	}
	return manifest, err
}

// CheckPlan returns an error for a plan that [DecodePlan] would reject, so that no role would process its run. The error
// for too many segments is a *[schemas.SegmentsError].
func CheckPlan(p *schemas.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	return checkPlan(p)
}

// checkPlan returns an error if a plan is invalid. The roles rely on its options.
func checkPlan(p *schemas.Plan) error {
	if err := model.CheckPlan(p); err != nil {
		return err
	}
	for _, s := range p.Stages {
		if problems := solve.Check(s); len(problems) > 0 {
			return fmt.Errorf("%w: plan: %w", wire.ErrDamaged, problems[0])
		}
	}
	return nil
}
