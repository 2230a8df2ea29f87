package schemas

import "fmt"

// KindFailure is the kind of a [Failure] message.
const KindFailure Kind = "failure"

// Failure is a worker's report that the run can't go on, because of what is on the topic or missing from it. The solver
// then ends the run.
type Failure struct {
	Run       string `json:"run"`
	Partition int    `json:"partition"`        // of the examples topic
	Source    string `json:"source,omitempty"` // the source, as [SourceName] has it, that lacks messages; empty: the failure is another
	Reason    string `json:"reason"`           // for people
}

// Message encodes the failure for the statistics topic.
func (f *Failure) Message() Message {
	short := *f
	short.Reason = cut(f.Reason, maxReason)
	return jsonMessage(KindFailure, f.Run, fmt.Sprintf("%s/failure/%d", f.Run, f.Partition), short)
}
