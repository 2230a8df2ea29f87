package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindClaim is the kind of a [Claim] message.
const KindClaim wire.Kind = "claim"

// Claim reports that a worker surveys examples of a run, so the run is not given up. A worker repeats it, as a survey may take long before
// there is a record of it.
type Claim struct {
	Run string `json:"run"` // run ID
}

// Message encodes the claim for the statistics topic.
func (c *Claim) Message() wire.Message { return wire.JSONMessage(KindClaim, c.Run, c.Run+"/claim", c) }
