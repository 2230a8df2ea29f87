package schemas

import (
	"fmt"

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
