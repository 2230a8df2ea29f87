package schemas

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// KindReport is the kind of a [Report] record.
const KindReport Kind = "report"

// Report describes a finished run. It is published as JSON. Errors are in percent.
type Report struct {
	Name          string                 `json:"name"`    // of the pipeline
	Version       int                    `json:"version"` // see Manifest
	Run           string                 `json:"run"`
	Rows          int64                  `json:"rows"` // training rows; see Splits for the others
	Classes       int                    `json:"classes"`
	Labels        []string               `json:"labels"`         // of the classes, in order
	Quarantined   int64                  `json:"quarantined"`    // messages in quarantine
	PassedOver    PassedOver             `json:"passed_over"`    // messages that the run leaves out, by the reason
	IngestSeconds float64                `json:"ingest_seconds"` // before the plan
	Seconds       float64                `json:"seconds"`        // from the plan to the last weights on their topic
	Stages        []StageReport          `json:"stages"`
	TrainError    float64                `json:"train_error"`
	TestError     *float64               `json:"test_error"` // null without test rows
	Splits        map[string]SplitReport `json:"splits"`     // by the split's name
	WeightsDigest Digest                 `json:"weights_digest"`
}

// SplitReport measures the final predictions of one split.
type SplitReport struct {
	Rows      int64     `json:"rows"`      // labelled rows
	Error     float64   `json:"error"`     // percent
	Loss      float64   `json:"loss"`      // of the last stage's link
	LogLoss   float64   `json:"log_loss"`  // of the probabilities, clipped at 1e-6
	Brier     float64   `json:"brier"`     // Brier score
	ECE       float64   `json:"ece"`       // expected calibration error, 15 bins of confidence
	Confusion [][]int64 `json:"confusion"` // [true class][predicted class], rows
}

// Messages encodes the report as a record, by the function encode. Parent is the digest of the run's last record. The
// confusion matrices of many classes take more than one message.
func (r *Report) Messages(parent Digest, encode func(*Record[float32]) ([]Message, error)) ([]Message, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode report of run %s: %w", r.Run, err)
	}
	record := &Record[float32]{
		Identity: Identity{Kind: KindReport, Run: r.Run, Stage: len(r.Stages), Parent: parent},
		Tensors:  Tensors[float32]{Words[float32](TensorReport, cutText(string(content)))},
	}
	messages, err := encode(record)
	if err != nil {
		return nil, err
	}
	digest := record.Digest().Short()
	for i := range messages {
		// Another solver's report may have other seconds. Compaction must not mix the chunks of the two.
		messages[i].Key += "/" + digest
	}
	return messages, nil
}

// ReportOf decodes a report. An error is a *[ShapeError] or wraps [ErrDamaged].
func ReportOf(r *Record[float32]) (*Report, error) {
	t, ok := r.Tensors.Find(TensorReport)
	if !ok {
		return nil, &ShapeError{Tensor: TensorReport, Want: []int{-1}}
	}
	report := &Report{}
	if err := json.Unmarshal([]byte(strings.Join(t.Text, "")), report); err != nil {
		return nil, r.damaged(err)
	}
	return report, nil
}

// cutText cuts a text between characters into parts that a record can hold in different chunks.
func cutText(text string) (list []string) {
	const size = 8 << 10
	for len(text) > size {
		at := size
		for !utf8.RuneStart(text[at]) {
			at--
		}
		list, text = append(list, text[:at]), text[at:]
	}
	return append(list, text)
}
