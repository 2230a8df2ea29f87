package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindRemoval is the kind of a [Removal] message.
const KindRemoval wire.Kind = "removal"

// Removal reports that a version was removed: tombstones of its messages are on the versions topic.
type Removal struct {
	Run     string `json:"run"`     // run ID
	Version int    `json:"version"` // version number
}

// Message encodes the removal for the plans topic.
func (r *Removal) Message() wire.Message {
	return wire.JSONMessage(KindRemoval, r.Run, "removal/"+r.Run, r)
}
