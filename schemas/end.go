package schemas

import (
	"strings"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindEnd is the kind of an [End] message.
const KindEnd wire.Kind = "end"

// States in which a run ends.
const (
	Done      = "done"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// End describes the end of a run.
type End struct {
	Run    string `json:"run"`              // run ID
	State  string `json:"state"`            // done, failed or cancelled
	Reason string `json:"reason,omitempty"` // why the run failed or was cancelled
	// Source is the name of a source with missing messages, in the format of [SourceName]; empty for other reasons. If its seal precedes
	// this end, the seal is void and the source is ingested again.
	Source string `json:"source,omitempty"`
	// Version is the place of the run's version on the versions topic; absent: no version.
	Version *Place `json:"version,omitempty"`
	// Since holds the end offsets of topics when the run ended: the next run's records begin there.
	Since Since `json:"since"`
	// unique, so that compaction keeps every end of a run. If a run has several ends, done outranks cancelled, and cancelled outranks
	// failed
	Attempt string `json:"attempt,omitempty"`
}

// Message encodes the end for the plans topic.
func (e *End) Message() wire.Message {
	short := *e
	short.Reason = cut(e.Reason, maxReason)
	return wire.JSONMessage(KindEnd, e.Run, "end/"+e.Run+"/"+e.Attempt, short)
}

// maxReason is the maximum length of a human-readable reason, in bytes.
const maxReason = 4 << 10

// cut truncates a text to a number of bytes, between characters, and marks it if it was truncated.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}
