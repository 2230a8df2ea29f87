package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSourceRemoval is the kind of a [SourceRemoval] message.
const KindSourceRemoval wire.Kind = "source-removal"

// SourceRemoval states that a source was removed: its messages stay on the examples topic, but later plans exclude them. It has the key of
// the source's seal, so compaction keeps the later of the two, which is in effect. It contains the seal, which ingest writes again to
// restore the source.
type SourceRemoval struct {
	Seal SourceSeal `json:"seal"` // seal of the source
}

// Message encodes the removal for the plans topic.
func (r *SourceRemoval) Message() wire.Message {
	return wire.JSONMessage(KindSourceRemoval, "", r.Seal.key(), r)
}

// Check returns the errors of [SourceSeal.Check].
func (r *SourceRemoval) Check() error { return r.Seal.Check() }
