package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindFailure is the kind of a [Failure] message.
const KindFailure wire.Kind = "failure"

// Failure is a worker's report that it can't make the due visit, because of invalid or missing messages on the topics.
// The run fails unless another worker can make the visit, for example with the rows in memory.
type Failure struct {
	Run    string      `json:"run"`    // run ID
	Parent wire.Digest `json:"parent"` // parent of the visit's records; a failure of a visit that is not due is ignored
	// Partitions are the partitions of the examples topic that the worker does not visit, ascending.
	Partitions []int `json:"partitions"`
	// name of the source with missing messages, in the format of [SourceName]; empty for other failures
	Source string `json:"source,omitempty"`
	// Expired is true if weights that the visit depends on have expired, so that the worker can't know which visit is due. Parent is then
	// ignored.
	Expired bool   `json:"expired,omitempty"`
	Reason  string `json:"reason"` // human-readable reason
}

// Message encodes the failure for the statistics topic.
func (f *Failure) Message() wire.Message {
	short := *f
	short.Reason = cut(f.Reason, maxReason)
	return wire.JSONMessage(KindFailure, f.Run, fmt.Sprintf("%s/failure/%v", f.Run, f.Partitions), short)
}
