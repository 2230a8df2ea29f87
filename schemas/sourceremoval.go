package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSourceRemoval is the kind of a [SourceRemoval] message.
const KindSourceRemoval wire.Kind = "source-removal"

// SourceRemoval says that a source was removed: its messages stay on the examples topic, but no later plan counts them. It has the key
// of the source's seal, so compaction keeps whichever of the two came last, and that one counts. It has all of the seal, as ingest
// writes the seal again to bring the source back.
type SourceRemoval struct {
	Seal SourceSeal `json:"seal"` // seal of the source
}

// Message encodes the removal for the plans topic.
func (r *SourceRemoval) Message() wire.Message {
	return wire.JSONMessage(KindSourceRemoval, "", r.Seal.key(), r)
}

// Check returns the errors of [SourceSeal.Check].
func (r *SourceRemoval) Check() error { return r.Seal.Check() }
