package schemas

import (
	"fmt"
	"time"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindReport is the kind of a [Report] document.
const KindReport wire.Kind = "report"

// Report describes a finished run. It is published as JSON. Errors are in percent.
type Report struct {
	Name        string               `json:"name"`        // name of the pipeline
	Version     int                  `json:"version"`     // version number
	Run         string               `json:"run"`         // run ID
	Rows        int64                `json:"rows"`        // training rows; for the other splits see Splits
	Classes     int                  `json:"classes"`     // number of classes
	Labels      examples.ClassLabels `json:"labels"`      // class labels, in order
	Quarantined int64                `json:"quarantined"` // quarantined messages
	// messages that the run left out, by reason; rows for the reasons forgotten, overflow and no_label
	PassedOver coverage.PassedOver `json:"passed_over"`
	// messages of the source topic that were deleted before they were read, or that its archive lacks
	LostMessages  int64         `json:"lost_messages,omitempty"`
	IngestSeconds float64       `json:"ingest_seconds"`     // duration of the ingest before the plan
	Seconds       float64       `json:"seconds"`            // time from the plan to the last published weights
	Stages        []StageReport `json:"stages"`             // reports of the stages, in order
	TrainError    float64       `json:"train_error"`        // percent; of the last stage, or of the mean of the members
	TestError     *float64      `json:"test_error"`         // percent; null without test rows
	Majority      string        `json:"majority,omitempty"` // most common label of the training rows; single-label only
	// Temperature divides the scores before they become probabilities; absent: 1.
	Temperature   float64                `json:"temperature,omitempty"`
	Thresholds    *statistics.Thresholds `json:"thresholds,omitempty"` // multi-label: thresholds of the metrics of the splits
	Splits        map[string]SplitReport `json:"splits"`               // reports of the splits, by name
	Retrain       *RetrainReport         `json:"retrain,omitempty"`    // runs of a chain only
	Outcomes      *OutcomesReport        `json:"outcomes,omitempty"`   // rows whose labels came later only
	WeightsDigest wire.Digest            `json:"weights_digest"`       // see Digests in FORMAT.md, Version
}

// RetrainReport describes a run of a chain. For an update, the splits of the report are measured before training on the rows.
type RetrainReport struct {
	Version int    `json:"version"` // version number
	Kind    string `json:"kind"`    // full or update
	// Spans are the offsets of the messages with the new rows, one span for each partition that has any.
	Spans coverage.Spans `json:"spans"`
	// timestamp of the oldest of these messages, in milliseconds since 1970
	From       int64 `json:"from,omitempty"`
	Until      int64 `json:"until,omitempty"` // timestamp of the newest of these messages, in milliseconds since 1970
	Rows       int64 `json:"rows"`            // new training rows
	WindowRows int64 `json:"window_rows"`     // rows of the window, excluding forgotten rows
	// offsets that the log deleted before any version of the chain was trained on their messages
	Lost int64 `json:"lost,omitempty"`
	// rows that left the window because the log no longer has them
	Gone int64 `json:"gone,omitempty"`
	// Forgotten is the number of forgotten rows: in the window for a full run, among the new rows for an update.
	Forgotten int64 `json:"forgotten,omitempty"`
	// Overflow is the number of quarantined rows that overflow: in the window for a full run, among the new rows for an update.
	Overflow int64 `json:"overflow,omitempty"`
	// NoLabel is the number of rows without a label: in the window for a full run, among the new rows for an update.
	NoLabel int64 `json:"no_label,omitempty"`
	// error on the new rows before training on them, in percent; null for a full run
	PrequentialError   *float64 `json:"prequential_error"`
	PrequentialLoss    *float64 `json:"prequential_loss"`     // loss of the last stage's link on these rows
	PrequentialLogLoss *float64 `json:"prequential_log_loss"` // log loss on these rows, with probabilities clipped at 1e-6
	PrequentialBrier   *float64 `json:"prequential_brier"`    // Brier score on these rows
	PrequentialECE     *float64 `json:"prequential_ece"`      // expected calibration error on these rows, with 15 confidence bins
	// regression: root mean squared error on these rows, averaged over the targets
	PrequentialRMSE *float64 `json:"prequential_rmse,omitempty"`
	// Served is the error of the answers that were served for these rows, by version; absent if no served answer is known.
	Served []ServedReport `json:"served,omitempty"`
	// prequential error by message, in log order, in at most 100 bins
	Curve []statistics.ErrorBin `json:"curve,omitempty"`
	// error on the visited holdout rows, in percent; null without any
	HoldoutError *float64 `json:"holdout_error"`
	Offered      bool     `json:"offered"` // whether subscribers get the version
	// comparison with the previously offered version; absent if the gate has no rows
	Gate *GateReport `json:"gate,omitempty"`
	// AtLeast is the number of rows that a version must be trained on to be offered, if the version is withheld for that reason.
	AtLeast int64 `json:"at_least,omitempty"`
	// Lacking are the optional columns that most new rows lack, although earlier rows had them.
	Lacking []string `json:"lacking,omitempty"`
	// Unseen reports whether the version is withheld because the gate could not compare it on rows without these columns.
	Unseen      bool  `json:"unseen,omitempty"`
	Drift       bool  `json:"drift"`                  // whether drift was detected
	UnknownRows int64 `json:"unknown_rows,omitempty"` // new rows whose label is not a class
	// MostlyBad counts the messages with the new rows, if most of them are unusable.
	MostlyBad *coverage.BadMessages `json:"mostly_bad,omitempty"`
	Outcomes  *OutcomesReport       `json:"outcomes,omitempty"` // those of the new rows
	Seconds   float64               `json:"seconds"`            // time from the plan to the version
}

// Withheld reports whether subscribers do not get the version.
func (r *Report) Withheld() bool {
	return r.Retrain != nil && !r.Retrain.Offered || r.Outcomes.Withhold()
}

// ServedReport is the error of the answers of a version that were served for rows.
type ServedReport struct {
	Version int     `json:"version"` // version that answered
	Rows    int64   `json:"rows"`    // training rows that it answered
	Error   float64 `json:"error"`   // percentage of these rows, by weight, whose label differs from the answer
}

// Values of RetrainReport.Kind.
const (
	RunFull   = "full"
	RunUpdate = "update"
)

// SplitReport measures the final predictions of one split.
type SplitReport struct {
	Rows int64 `json:"rows"` // labelled rows
	// Error is the percentage of wrong rows; regression: the squared error in percent of the variance of the training rows, averaged over
	// the targets.
	Error   float64  `json:"error"`
	Loss    float64  `json:"loss"`               // loss of the last stage's link
	LogLoss *float64 `json:"log_loss,omitempty"` // mean of −ln p of the true class, p at least 1e-6; not for regression
	// Brier is the Brier score: the mean squared distance of the probabilities from the truth, halved for two classes; not for regression.
	Brier *float64 `json:"brier,omitempty"`
	ECE   *float64 `json:"ece,omitempty"` // expected calibration error with 15 confidence bins; not for regression
	statistics.ClassMeasures
	// regression: root mean squared error, averaged over the targets
	RMSE *float64 `json:"rmse,omitempty"`
	MAE  *float64 `json:"mae,omitempty"` // regression: mean absolute error, averaged over the targets
	// regression: 1 − mean squared error / variance of the split's rows, averaged over the targets
	R2 *float64 `json:"r2,omitempty"`
	// multi-label: Hamming loss, the fraction of the labels of rows that are wrong
	Hamming *float64 `json:"hamming,omitempty"`
	MicroF1 *float64 `json:"micro_f1,omitempty"` // multi-label: F1 over all labels of all rows
	// multi-label: mean F1 of the labels; 0 for a label that no row has or is predicted to have
	MacroF1 *float64 `json:"macro_f1,omitempty"`
	// multi-label: fraction of the rows whose predicted labels are exactly the true labels
	SubsetAccuracy *float64 `json:"subset_accuracy,omitempty"`
	// multi-label: fraction of the 1, 3 and 5 most probable labels that the rows have
	PrecisionAt map[string]float64              `json:"precision_at,omitempty"`
	Targets     map[string]statistics.Distances `json:"targets,omitempty"` // regression: the same metrics for each target, by name
	// Confusion is the number of rows by true class, then by predicted class; null with more than 724 classes, and for regression.
	Confusion [][]int64 `json:"confusion"`
	// Reliability is the accuracy of predictions by confidence: one bin for each fifteenth of the confidence range that has rows, in order.
	Reliability []ReliabilityBin `json:"reliability,omitempty"`
}

// ReliabilityBin is the rows of a split with similar confidence, which is the probability of the predicted class.
type ReliabilityBin struct {
	Weight     float64 `json:"weight"`     // Σw of the rows
	Confidence float64 `json:"confidence"` // mean confidence, from 0 to 1
	Accuracy   float64 `json:"accuracy"`   // fraction of the rows that are predicted correctly, by weight
}

// Check returns an error for a report whose counts can't be shown: a confusion matrix has a row and a column for each
// label, and no count is negative.
func (r *Report) Check() error {
	for name, split := range r.Splits {
		if split.Rows < 0 {
			return fmt.Errorf("the split %.20q has %d rows", name, split.Rows)
		}
		if n := len(split.Confusion); n > 0 && n != len(r.Labels) {
			return fmt.Errorf("the split %.20q has a confusion matrix of %d classes, expected %d", name, n, len(r.Labels))
		}
		for i, row := range split.Confusion {
			if len(row) != len(r.Labels) {
				return fmt.Errorf("the split %.20q has %d counts of class %d, expected %d", name, len(row), i, len(r.Labels))
			}
			for _, n := range row {
				if n < 0 {
					return fmt.Errorf("the split %.20q has %d rows of class %d", name, n, i)
				}
			}
		}
	}
	return wire.CheckName(r.Run)
}

// Messages encodes the report for the weights topic.
func (r *Report) Messages() ([]wire.Message, error) { return wire.MessagesOf(KindReport, r.Run, r) }

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

// OutcomesReport counts the rows and outcomes that were joined for the new rows of a run.
type OutcomesReport struct {
	examples.JoinCounts
	Alone int64   `json:"alone"` // outcomes without a row
	Limit float64 `json:"limit"` // fraction of outcomes without a row beyond which the version is withheld
	// RowKey describes a key of a row, as bytes and as read, if most outcomes have no row.
	RowKey     string `json:"row_key,omitempty"`
	OutcomeKey string `json:"outcome_key,omitempty"` // a key of an outcome, likewise
}

// OutcomesOf returns the report of the joined rows and outcomes; nil without a join.
func OutcomesOf(j *examples.Joined) *OutcomesReport {
	if j == nil {
		return nil
	}
	counts, _ := j.Counts()
	return &OutcomesReport{counts, counts.Alone(), j.Limit, j.RowKey, j.OutcomeKey}
}

// Withhold reports whether too many outcomes have no row for a version to be offered.
func (o *OutcomesReport) Withhold() bool {
	return o != nil && float64(o.Alone) > o.Limit*float64(o.Outcomes)
}

// Why explains why the version is withheld.
func (o *OutcomesReport) Why() string {
	return fmt.Sprintf("%d of %s have no row: their keys or times do not match. %s. %s. See examples.outcome.key_format; "+
		"examples.outcome.unmatched: 1 offers such versions", o.Alone, plural(o.Outcomes, "outcome"), o.RowKey, o.OutcomeKey)
}

// JoinText returns the counts of a join as text.
func JoinText(c examples.JoinCounts) string {
	text := fmt.Sprintf("%s decided, %d without an outcome; %s, %d without a row", plural(c.Rows, "message"),
		c.Absent, plural(c.Outcomes, "outcome"), c.Alone())
	if c.Late > 0 {
		disorder := time.Duration(c.Disorder) * time.Millisecond
		unit := time.Second
		if disorder > time.Minute {
			unit = time.Minute
		}
		grace := disorder.Truncate(unit)
		if grace < disorder {
			grace += unit
		}
		text += fmt.Sprintf(", %d after their row was decided: messages are out of order by up to %v, and examples.outcome.grace: %v would have "+
			"kept the rows", c.Late, disorder, grace)
	}
	return text
}

// plural returns a number of things with their name.
func plural(n int64, name string) string {
	if n != 1 {
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}
