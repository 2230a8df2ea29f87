package schemas

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// KindReport is the kind of a [Report].
const KindReport Kind = "report"

// Report is what a run that is done says of itself, as JSON. Errors are percent.
type Report struct {
	Name          string                 `json:"name"`
	Version       int                    `json:"version"`
	Run           string                 `json:"run"`
	Rows          int64                  `json:"rows"` // trained on; those of the other splits are under Splits
	Classes       int                    `json:"classes"`
	Labels        []string               `json:"labels"`
	Quarantined   int64                  `json:"quarantined"`
	IngestSeconds float64                `json:"ingest_seconds"`
	Seconds       float64                `json:"seconds"` // from the plan to the last weights on their topic
	Stages        []StageReport          `json:"stages"`
	TrainError    float64                `json:"train_error"`
	TestError     *float64               `json:"test_error"` // null without test rows
	Splits        map[string]SplitReport `json:"splits"`
	WeightsDigest Digest                 `json:"weights_digest"`
}

// SplitReport is what the final predictions are worth on one split.
type SplitReport struct {
	Rows      int64     `json:"rows"`
	Error     float64   `json:"error"`
	Loss      float64   `json:"loss"`     // the last stage's link's own
	LogLoss   float64   `json:"log_loss"` // of the probabilities, clipped at 1e-6
	Brier     float64   `json:"brier"`
	ECE       float64   `json:"ece"`       // expected calibration error, 15 bins of confidence
	Confusion [][]int64 `json:"confusion"` // [true class][predicted class], rows
}

// Messages encodes the report, given the digest of the run's last record and how
// records are encoded. With many classes the confusion matrices are more than one
// message.
func (r *Report) Messages(parent Digest, encode func(*Record[float32]) ([]Message, error)) ([]Message, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode report of run %s: %w", r.Run, err)
	}
	record := &Record[float32]{
		Identity: Identity{Kind: KindReport, Run: r.Run, Stage: len(r.Stages), Parent: parent},
		Tensors:  Tensors[float32]{Words[float32](TensorReport, pieces(string(content)))},
	}
	messages, err := encode(record)
	if err != nil {
		return nil, err
	}
	digest := record.Digest().Short()
	for i := range messages { // another solver's report may have other seconds, and compaction keeps the last of a key
		messages[i].Key += "/" + digest
	}
	return messages, nil
}

// ReportOf decodes a report. Errors are a *[ShapeError] or wrap ErrDamaged.
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

// pieces cuts text where a record can be cut, between characters.
func pieces(text string) (list []string) {
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

func reportLayout() Layout {
	return Layout{
		Kind: KindReport, Topic: "plans", Writer: "solver", Reader: "submitters",
		Tensors: []Part{{TensorReport, "text: its JSON, cut into pieces. The key ends with the first digits of the record's digest"}},
	}
}
