package schemas

import (
	"fmt"
)

// KindFailure is the kind of a [Failure].
const KindFailure Kind = "failure"

// Failure says what the log has made impossible; the solver ends the run on it.
type Failure struct {
	Run       string `json:"run"`
	Partition int    `json:"partition"`
	Reason    string `json:"reason"`
}

// Message encodes the failure for the statistics topic.
func (f *Failure) Message() Message {
	return jsonMessage(KindFailure, f.Run, fmt.Sprintf("%s/failure/%d", f.Run, f.Partition), f)
}

func failureLayout() Layout {
	return Layout{
		Kind: KindFailure, Topic: "statistics", Key: "RUN/failure/PARTITION", Writer: "worker", Reader: "solver",
		Says: "what the log has made impossible", Value: Failure{},
	}
}
