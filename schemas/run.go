package schemas

import (
	"fmt"
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

// Place is the position of the messages of a version on its topic. Other messages may be between them.
type Place struct {
	Run     string `json:"run"`               // run ID
	Version int    `json:"version,omitempty"` // version number
	From    int64  `json:"from"`              // first offset
	To      int64  `json:"to"`                // offset after the last
	// Withheld is true if the version is not offered: subscribers get it only by version number or run ID, or while it is pinned. See
	// [Gate].
	Withheld bool `json:"withheld,omitempty"`
	// Manifest is the offset at which the manifest begins.
	Manifest int64 `json:"manifest,omitempty"`
	// PlansFrom is that of the manifest.
	PlansFrom int64 `json:"plans_from,omitempty"`
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

// KindClaim is the kind of a [Claim] message.
const KindClaim wire.Kind = "claim"

// Claim reports that a worker is surveying examples of a run, so that the run is not abandoned. The worker repeats it, because a survey may
// take long before its first record.
type Claim struct {
	Run string `json:"run"` // run ID
}

// Message encodes the claim for the statistics topic.
func (c *Claim) Message() wire.Message { return wire.JSONMessage(KindClaim, c.Run, c.Run+"/claim", c) }

// KindFailure is the kind of a [Failure] message.
const KindFailure wire.Kind = "failure"

// Failure is a worker's report that it can't make the due visit, because of invalid or missing messages on the topics.
// The run fails unless another worker can make the visit, for example with the rows in memory.
type Failure struct {
	Run    string      `json:"run"`    // run ID
	Parent wire.Digest `json:"parent"` // parent of the visit's records; a failure of a visit that is not due is ignored
	// Partitions are the first partitions of the shares that the worker does not visit, ascending.
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

// KindWeights is the kind of a [Weights] record.
const KindWeights wire.Kind = "weights"

// KindStructure is the kind of a [Weights] record with the trees of a stage and no weights. Its visit is the first of the stage.
const KindStructure wire.Kind = "structure"

// Weights has the weights for a visit. Workers begin the visit when the solver has published them.
type Weights struct {
	wire.Identity
	Tensors wire.Tensors[float32] `tensor:"*"`               // W, or a calibration, or both
	Final   *Final                `header:"final,group"`     // set if the record ends a stage
	Ridge   Ridge                 `header:"ridge,omitzero"`  // ridge of the stage, if chosen by the solver; otherwise 0
	Weight  *Weight               `header:"weight,omitzero"` // weight of a class_counts stage, if the record ends it; otherwise nil
	Pass    *PassReport           `header:"pass,omitzero"`   // result of the pass that the previous visit ended; nil if it ended none
}

// Final identifies the final weights of a stage.
type Final struct {
	Visit  int `header:"final"` // visit that measured the loss of these weights
	Passes int `header:"links"` // learnt link: number of passes of Algorithm 2 that count; 0 for other links
}

// Check returns an error for an impossible ridge or weight.
func (w *Weights) Check() error {
	if w.Ridge != 0 && !(w.Ridge > 0 && w.Ridge.Valid()) {
		return errRidge
	}
	if w.Weight != nil && !(*w.Weight >= 0 && w.Weight.Valid()) {
		return errWeight
	}
	return nil
}
