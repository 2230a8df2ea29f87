package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindClaim is the kind of a [Claim] message.
const KindClaim wire.Kind = "claim"

// Claim reports that a worker is surveying examples of a run, so that the run is not abandoned. The worker repeats it, because a survey may
// take long before its first record.
type Claim struct {
	Run string `json:"run"` // run ID
}

// Message encodes the claim for the statistics topic.
func (c *Claim) Message() wire.Message { return wire.JSONMessage(KindClaim, c.Run, c.Run+"/claim", c) }
