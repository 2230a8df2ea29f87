package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindStage is the kind of a [StageReport] message.
const KindStage wire.Kind = "stage"

// StageReport describes a finished stage of a run. It is an entry of a [Report], and also a message of its own for those
// who follow the run. Errors are in percent, losses are of the stage's link, and both are null without rows of the split.
type StageReport struct {
	Stage        int      `json:"stage"`                   // from 0
	Member       int      `json:"member,omitempty"`        // of a run that averages: the member that the stage belongs to, from 1
	Link         string   `json:"link"`                    // see Stage
	Passes       int      `json:"passes"`                  // of its fit
	Ridge        Ridge    `json:"ridge"`                   // of its fit
	Weight       *Weight  `json:"weight,omitempty"`        // of features that are counted
	Seconds      float64  `json:"seconds"`                 // that the stage took
	TrainError   float64  `json:"train_error"`             // percent
	TestError    *float64 `json:"test_error"`              // percent; null without test rows
	TrainLoss    float64  `json:"train_loss"`              // of the stage's link
	TestLoss     *float64 `json:"test_loss"`               // of the stage's link; null without test rows
	HoldoutError *float64 `json:"holdout_error,omitempty"` // percent
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`  // of the stage's link
	// rows that are left out, as their inputs or features overflow; of an update those that it visits
	Overflow int64 `json:"overflow,omitempty"`
	// Average measures the mean of the members so far, after the last stage of a member. Other errors and losses here are of the member alone.
	Average *AverageReport `json:"average,omitempty"`
	// ByPass are the passes, in order.
	ByPass []PassReport `json:"by_pass,omitempty"`
}

// AverageReport measures the mean of what members predict. Errors and losses are as in a [StageReport].
type AverageReport struct {
	Members      int      `json:"members"`                 // so many, the first ones
	TrainError   float64  `json:"train_error"`             // percent
	TestError    *float64 `json:"test_error"`              // percent; null without test rows
	TrainLoss    float64  `json:"train_loss"`              // of the stage's link
	TestLoss     *float64 `json:"test_loss"`               // of the stage's link; null without test rows
	HoldoutError *float64 `json:"holdout_error,omitempty"` // percent
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`  // of the stage's link
}

// Final returns the errors of the predictions that a run ends with, if the stage is the last: those of the mean of its
// members, or else of the stage. Those of the test and holdout rows are nil without any.
func (s *StageReport) Final() (train float64, test, holdout *float64) {
	if a := s.Average; a != nil {
		return a.TrainError, a.TestError, a.HoldoutError
	}
	return s.TrainError, s.TestError, s.HoldoutError
}

// PassReport says how a pass of a stage went: what the weights of the visit before it did. Errors and losses are as in a [StageReport].
type PassReport struct {
	Pass         int      `json:"pass"`                    // from 1
	Objective    float64  `json:"objective"`               // J, which the stage minimises; the loss if its link is learnt
	Accepted     bool     `json:"accepted"`                // false: J rose, and the fit goes back
	TrainError   float64  `json:"train_error"`             // percent
	TrainLoss    float64  `json:"train_loss"`              // of the stage's link
	TestError    *float64 `json:"test_error"`              // percent; null without test rows
	TestLoss     *float64 `json:"test_loss"`               // of the stage's link; null without test rows
	HoldoutError *float64 `json:"holdout_error,omitempty"` // percent
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`  // of the stage's link
}

// Message encodes the report of a run's stage for the weights topic.
func (s *StageReport) Message(run string) wire.Message {
	return wire.JSONMessage(KindStage, run, fmt.Sprintf("stage/%s/%d", run, s.Stage), s)
}
