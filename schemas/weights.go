package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindWeights is the kind of a [Weights] record.
const KindWeights wire.Kind = "weights"

// KindStructure is the kind of a [Weights] record with the trees of a stage and no weights. Its visit is the first of the stage.
const KindStructure wire.Kind = "structure"

// Weights has the weights for a visit. Workers begin the visit when the solver has published them.
type Weights struct {
	wire.Identity
	Tensors wire.Tensors[float32] `tensor:"*"`               // W, or a calibration, or both
	Final   *Final                `header:"final,group"`     // set if the record ends a stage
	Ridge   Ridge                 `header:"ridge,omitzero"`  // ridge of the stage, if chosen by the solver; otherwise 0
	Weight  *Weight               `header:"weight,omitzero"` // weight of a class_counts stage, if the record ends it; otherwise nil
	Pass    *PassReport           `header:"pass,omitzero"`   // result of the pass that the previous visit ended; nil if it ended none
}

// Final identifies the final weights of a stage.
type Final struct {
	Visit  int `header:"final"` // visit that measured the loss of these weights
	Passes int `header:"links"` // learnt link: number of passes of Algorithm 2 that count; 0 for other links
}

// Check returns an error for an impossible ridge or weight.
func (w *Weights) Check() error {
	if w.Ridge != 0 && !(w.Ridge > 0 && w.Ridge.Valid()) {
		return errRidge
	}
	if w.Weight != nil && !(*w.Weight >= 0 && w.Weight.Valid()) {
		return errWeight
	}
	return nil
}
