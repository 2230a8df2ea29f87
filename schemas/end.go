package schemas

// KindEnd is the kind of an [End] message.
const KindEnd Kind = "end"

// States in which a run ends.
const (
	Done      = "done"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// End says how a run ended.
type End struct {
	Run     string `json:"run"`
	Content Digest `json:"content"`          // see Plan.Content
	State   string `json:"state"`            // Done, Failed or Cancelled
	Reason  string `json:"reason,omitempty"` // why it failed or was cancelled
	// Source is a source that lacks messages, as [SourceName] has it; empty for other reasons. Its seal, if it stands before this
	// end, no longer counts, so the source is ingested again.
	Source string `json:"source,omitempty"`
	// Attempt is unique, so that compaction keeps every end of a run. If a run has several ends, Done outranks Cancelled,
	// and Cancelled outranks Failed.
	Attempt string `json:"attempt,omitempty"`
}

// Message encodes the end for the plans topic.
func (e *End) Message() Message { return jsonMessage(KindEnd, e.Run, "end/"+e.Run+"/"+e.Attempt, e) }
