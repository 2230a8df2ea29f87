package schemas

// KindClaim is the kind of a [Claim] message.
const KindClaim Kind = "claim"

// Claim says that a worker surveys examples of a run: the run is not given up. A worker repeats it, as a survey may take long before
// there is a record of it.
type Claim struct {
	Run string `json:"run"` // id of the run
}

// Message encodes the claim for the statistics topic.
func (c *Claim) Message() Message { return jsonMessage(KindClaim, c.Run, c.Run+"/claim", c) }
