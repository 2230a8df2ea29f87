package schemas

import "fmt"

// KindStage is the kind of a [StageReport].
const KindStage Kind = "stage"

// StageReport is what a stage of a run came to: an entry of a [Report], and a
// message of its own for whoever follows the run. Stage counts from 0.
type StageReport struct {
	Stage        int      `json:"stage"`
	Link         string   `json:"link"`
	Passes       int      `json:"passes"`
	Seconds      float64  `json:"seconds"`
	TrainError   float64  `json:"train_error"` // percent
	TestError    *float64 `json:"test_error"`
	TrainLoss    float64  `json:"train_loss"`
	TestLoss     *float64 `json:"test_loss"`
	HoldoutError *float64 `json:"holdout_error,omitempty"`
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`
}

// Message encodes the stage of a run for the plans topic.
func (s *StageReport) Message(run string) Message {
	return jsonMessage(KindStage, run, fmt.Sprintf("stage/%s/%d", run, s.Stage), s)
}

func stageReportLayout() Layout {
	return Layout{
		Kind: KindStage, Topic: "plans", Key: "stage/RUN/STAGE", Writer: "solver", Reader: "who follows a run",
		Says: "passes, seconds, errors and losses of a stage that has ended", Value: StageReport{},
	}
}
