package schemas

import "fmt"

// KindStage is the kind of a [StageReport] message.
const KindStage Kind = "stage"

// StageReport describes a finished stage of a run. It is an entry of a [Report], and also a message of its own for those
// who follow the run. Errors are in percent, losses are of the stage's link, and both are null without rows of the split.
type StageReport struct {
	Stage        int      `json:"stage"` // from 0
	Link         string   `json:"link"`
	Passes       int      `json:"passes"` // of its fit
	Seconds      float64  `json:"seconds"`
	TrainError   float64  `json:"train_error"`
	TestError    *float64 `json:"test_error"`
	TrainLoss    float64  `json:"train_loss"`
	TestLoss     *float64 `json:"test_loss"`
	HoldoutError *float64 `json:"holdout_error,omitempty"`
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`
}

// Message encodes the report of a run's stage for the weights topic.
func (s *StageReport) Message(run string) Message {
	return jsonMessage(KindStage, run, fmt.Sprintf("stage/%s/%d", run, s.Stage), s)
}
