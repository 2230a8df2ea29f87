package schemas

// KindEnd is the kind of an [End].
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
	Content Digest `json:"content"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	// Attempt is unlike that of any other end, so that compaction keeps each. If
	// there are several, done counts before cancelled, and that before failed.
	Attempt string `json:"attempt,omitempty"`
}

// Message encodes the end for the plans topic.
func (e *End) Message() Message { return jsonMessage(KindEnd, e.Run, "end/"+e.Run+"/"+e.Attempt, e) }

func endLayout() Layout {
	return Layout{
		Kind: KindEnd, Topic: "plans", Key: "end/RUN/ATTEMPT", Writer: "solver, who supersedes", Reader: "all",
		Says:  "`state`: `done`, `failed` or `cancelled`, and why; of several `done` counts before `cancelled`, and that before `failed`",
		Value: End{},
	}
}
