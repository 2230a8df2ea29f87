package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindStage is the kind of a [StageReport] message.
const KindStage wire.Kind = "stage"

// StageReport describes a finished stage of a run. It is an entry of a [Report], and also its own message for followers of
// the run. Errors are in percent, losses are those of the stage's link, and both are null without rows of the split.
type StageReport struct {
	Stage   int     `json:"stage"`            // stage number, from 0
	Member  int     `json:"member,omitempty"` // with averaging: the member that the stage belongs to, from 1
	Link    string  `json:"link"`             // link of the stage: see Stage
	Passes  int     `json:"passes"`           // passes of the fit
	Ridge   Ridge   `json:"ridge"`            // ridge of the fit
	Weight  *Weight `json:"weight,omitempty"` // weight of class_counts features
	Seconds float64 `json:"seconds"`          // duration of the stage
	Measured
	// Overflow is the number of rows left out because their inputs or features overflow; for an update, among the rows that it visits.
	Overflow int64 `json:"overflow,omitempty"`
	// Tempered is the temperature that predicts the holdout rows best; only for a stage of trees, and with holdout rows.
	Tempered *TemperedReport `json:"tempered,omitempty"`
	// Average measures the mean of the members so far, after the last stage of a member. The other errors and losses are those of the
	// member alone.
	Average *AverageReport `json:"average,omitempty"`
	// passes, in order
	ByPass []PassReport `json:"by_pass,omitempty"`
}

// TemperedReport measures the predictions of holdout rows whose scores are divided by a temperature.
type TemperedReport struct {
	Temperature float64 `json:"temperature"`  // the temperature with the lowest loss
	HoldoutLoss float64 `json:"holdout_loss"` // loss of the stage's link at this temperature
}

// AverageReport measures the mean prediction of members. Errors and losses are as in a [StageReport].
type AverageReport struct {
	Members int `json:"members"` // number of members in the mean, from the first
	Measured
}

// Measured has the errors and losses of predictions.
type Measured struct {
	TrainError   float64  `json:"train_error"`             // percent
	TestError    *float64 `json:"test_error"`              // percent; null without test rows
	TrainLoss    float64  `json:"train_loss"`              // loss of the stage's link
	TestLoss     *float64 `json:"test_loss"`               // loss of the stage's link; null without test rows
	HoldoutError *float64 `json:"holdout_error,omitempty"` // percent
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`  // loss of the stage's link
}

// Final returns the errors and losses of the run's final predictions, if the stage is the last: those of the mean of the members or,
// without averaging, of the stage.
func (s *StageReport) Final() Measured {
	if s.Average != nil {
		return s.Average.Measured
	}
	return s.Measured
}

// PassReport describes a pass of a stage: the effect of the weights of the visit before it. Errors and losses are as in a [StageReport].
type PassReport struct {
	Pass         int      `json:"pass"`                    // pass number, from 1
	Objective    float64  `json:"objective"`               // the objective J that the stage minimises; the loss for a learnt link
	Accepted     bool     `json:"accepted"`                // false if J rose and the fit was rolled back
	TrainError   float64  `json:"train_error"`             // percent
	TrainLoss    float64  `json:"train_loss"`              // loss of the stage's link
	TestError    *float64 `json:"test_error"`              // percent; null without test rows
	TestLoss     *float64 `json:"test_loss"`               // loss of the stage's link; null without test rows
	HoldoutError *float64 `json:"holdout_error,omitempty"` // percent
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`  // loss of the stage's link
}

// Message encodes the report of a run's stage for the weights topic.
func (s *StageReport) Message(run string) wire.Message {
	return wire.JSONMessage(KindStage, run, fmt.Sprintf("stage/%s/%d", run, s.Stage), s)
}
