package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindFailure is the kind of a [Failure] message.
const KindFailure wire.Kind = "failure"

// Failure is a worker's report that it can't make the due visit, because of wrong or missing messages on the topics. It
// ends the run if no other worker can either: one that has the rows in memory can.
type Failure struct {
	Run    string      `json:"run"`    // id of the run
	Parent wire.Digest `json:"parent"` // of the records of the visit; a failure of another visit than the one that is due does not count
	// Partitions are those of the examples topic that the worker does not visit, ascending.
	Partitions []int  `json:"partitions"`
	Source     string `json:"source,omitempty"` // the source, as [SourceName] has it, that lacks messages; empty: the failure is another
	// Expired says that the weights of the run have expired that the visit depends on, so that the worker can't know which
	// is due. Then Parent does not matter.
	Expired bool   `json:"expired,omitempty"`
	Reason  string `json:"reason"` // for people
}

// Message encodes the failure for the statistics topic.
func (f *Failure) Message() wire.Message {
	short := *f
	short.Reason = cut(f.Reason, maxReason)
	return wire.JSONMessage(KindFailure, f.Run, fmt.Sprintf("%s/failure/%v", f.Run, f.Partitions), short)
}
