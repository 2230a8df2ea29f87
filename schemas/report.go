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
	Name        string               `json:"name"`        // of the pipeline
	Version     int                  `json:"version"`     // number of the version
	Run         string               `json:"run"`         // id of the run
	Rows        int64                `json:"rows"`        // training rows; see Splits for the others
	Classes     int                  `json:"classes"`     // number of classes
	Labels      examples.ClassLabels `json:"labels"`      // of the classes, in order
	Quarantined int64                `json:"quarantined"` // messages in quarantine
	// messages that the run leaves out, by the reason; of those that are forgotten or overflow, rows
	PassedOver    coverage.PassedOver    `json:"passed_over"`
	IngestSeconds float64                `json:"ingest_seconds"`       // before the plan
	Seconds       float64                `json:"seconds"`              // from the plan to the last weights on their topic
	Stages        []StageReport          `json:"stages"`               // in their order
	TrainError    float64                `json:"train_error"`          // of the last stage, or of the mean of the members; percent
	TestError     *float64               `json:"test_error"`           // null without test rows
	Majority      string                 `json:"majority,omitempty"`   // label of most training rows, of one label a row
	Thresholds    *statistics.Thresholds `json:"thresholds,omitempty"` // of several labels a row: of the metrics of the splits
	Splits        map[string]SplitReport `json:"splits"`               // by the split's name
	Retrain       *RetrainReport         `json:"retrain,omitempty"`    // of a run of a chain
	WeightsDigest wire.Digest            `json:"weights_digest"`       // see Digests in FORMAT.md, Version
}

// RetrainReport says what a run of a chain did. Of an update, the splits of the report are measured before the rows are learnt.
type RetrainReport struct {
	Version int    `json:"version"` // number of the version
	Kind    string `json:"kind"`    // full or update
	// of the messages with the new rows, one of each partition that has any
	Spans coverage.Spans `json:"spans"`
	// when the oldest of these messages was written, in milliseconds since 1970
	From       int64 `json:"from,omitempty"`
	Until      int64 `json:"until,omitempty"` // when the newest of them was written
	Rows       int64 `json:"rows"`            // training rows that are new
	WindowRows int64 `json:"window_rows"`     // rows of the window, without forgotten ones
	// offsets that the log deleted before a version of the chain had learnt their messages
	Lost int64 `json:"lost,omitempty"`
	// rows that have left the window because the log no longer holds them
	Gone int64 `json:"gone,omitempty"`
	// forgotten rows: of the window for a full run, else of the new ones
	Forgotten int64 `json:"forgotten,omitempty"`
	// rows in quarantine, as they overflow: of the window for a full run, else of the new ones
	Overflow int64 `json:"overflow,omitempty"`
	// rows without a label: of the window for a full run, else of the new ones
	NoLabel int64 `json:"no_label,omitempty"`
	// percent, of the new rows before they are learnt; null for a full run
	PrequentialError   *float64 `json:"prequential_error"`
	PrequentialLoss    *float64 `json:"prequential_loss"`     // of the last stage's link
	PrequentialLogLoss *float64 `json:"prequential_log_loss"` // of the probabilities of these rows, clipped at 1e-6
	PrequentialBrier   *float64 `json:"prequential_brier"`    // their Brier score
	PrequentialECE     *float64 `json:"prequential_ece"`      // their expected calibration error, 15 bins of confidence
	// of numbers: the root of the mean squared error, a mean over the numbers
	PrequentialRMSE *float64 `json:"prequential_rmse,omitempty"`
	// how well versions answered for these rows when they were served, by version; absent if none is known to have been served
	Served []ServedReport `json:"served,omitempty"`
	// the prequential error by message, in the order of the log, in at most 100 bins
	Curve []statistics.ErrorBin `json:"curve,omitempty"`
	// percent, of the holdout rows that were visited; null without any
	HoldoutError *float64 `json:"holdout_error"`
	Offered      bool     `json:"offered"` // whether subscribers get it
	// how it compares with the version that was offered before it; absent if the gate has no rows
	Gate *GateReport `json:"gate,omitempty"`
	// how many rows the version must have learnt to be offered, if that is why it is not
	AtLeast     int64 `json:"at_least,omitempty"`
	Drift       bool  `json:"drift"`                  // whether the stream has changed
	UnknownRows int64 `json:"unknown_rows,omitempty"` // new rows of labels that are no class
	// the messages with the new rows, if most of them can't be used
	MostlyBad *coverage.BadMessages `json:"mostly_bad,omitempty"`
	Seconds   float64               `json:"seconds"` // from the plan to the version
}

// ServedReport says how well a version answered for rows when they were served.
type ServedReport struct {
	Version int     `json:"version"` // that answered
	Rows    int64   `json:"rows"`    // training rows for which it did
	Error   float64 `json:"error"`   // percent: of these rows, by weight, with another label than it answered
}

// Values of RetrainReport.Kind.
const (
	RunFull   = "full"
	RunUpdate = "update"
)

// SplitReport measures the final predictions of one split.
type SplitReport struct {
	Rows int64 `json:"rows"` // labelled rows
	// percent: of wrong rows; of numbers, of the variance of the training rows that the squared error is, a mean over the
	// numbers
	Error   float64  `json:"error"`
	Loss    float64  `json:"loss"`               // of the last stage's link
	LogLoss *float64 `json:"log_loss,omitempty"` // mean of −ln p of the true class, p at least 1e-6; not of numbers
	// Brier score: of the squared distance of the probabilities from the truth the mean over the rows, half of it for two
	// classes; not of numbers
	Brier *float64 `json:"brier,omitempty"`
	ECE   *float64 `json:"ece,omitempty"` // expected calibration error, 15 bins of confidence; not of numbers
	statistics.ClassMeasures
	// of numbers: root of the mean squared error, a mean over the numbers
	RMSE *float64 `json:"rmse,omitempty"`
	MAE  *float64 `json:"mae,omitempty"` // of numbers: mean absolute error, a mean over the numbers
	// of numbers: 1 − mean squared error / variance of the split's rows, a mean over the numbers
	R2 *float64 `json:"r2,omitempty"`
	// of several labels a row: the part of the labels of rows that is wrong
	Hamming *float64 `json:"hamming,omitempty"`
	MicroF1 *float64 `json:"micro_f1,omitempty"` // of several labels: F1 over all labels of all rows
	// of several labels: the mean of the labels' F1, 0 for a label that no row has or is given
	MacroF1 *float64 `json:"macro_f1,omitempty"`
	// of several labels: the part of the rows whose labels are all right, and no others
	SubsetAccuracy *float64 `json:"subset_accuracy,omitempty"`
	// of several labels: the part of the 1, 3 and 5 most probable labels that rows have
	PrecisionAt map[string]float64              `json:"precision_at,omitempty"`
	Targets     map[string]statistics.Distances `json:"targets,omitempty"` // of numbers: the same for each of them, by its name
	// rows by true class, then by predicted class; null with more than 724 classes, and for numbers
	Confusion [][]int64 `json:"confusion"`
	// Reliability is the accuracy of predictions by confidence: a bin for each fifteenth of the confidence that has rows, in order.
	Reliability []ReliabilityBin `json:"reliability,omitempty"`
}

// ReliabilityBin is the rows of a split whose predictions have like confidence, which is the probability of the class that is predicted.
type ReliabilityBin struct {
	Weight     float64 `json:"weight"`     // Σw of the rows
	Confidence float64 `json:"confidence"` // their mean confidence, from 0 to 1
	Accuracy   float64 `json:"accuracy"`   // the fraction of them that is predicted correctly, by weight
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

// Messages encodes the report for the weights topic. The error is a *[wire.DocumentError].
func (r *Report) Messages() ([]wire.Message, error) { return wire.MessagesOf(KindReport, r.Run, r) }
