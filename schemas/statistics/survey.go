package statistics

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindPrepare is the kind of a [SurveyResult] record.
const KindPrepare wire.Kind = "prepare"

// SurveyResult is the result of a run's survey, the first of the run's records on the weights topic. Its Stage is
// [wire.Survey] and its Parent is the digest of the plan.
type SurveyResult struct {
	wire.Identity
	Rows        SplitRows           `header:"rows"`        // labelled rows of each split
	Quarantined int64               `header:"quarantined"` // quarantined messages
	PassedOver  coverage.PassedOver `header:"passed_over"`
	// Preparation holds center, scale, basis, spread and labels, which are part of a model.
	Preparation wire.Tensors[float32] `tensor:"*"`
	Covered     []coverage.Coverage   `tensor:"covered,texts"`            // by span of the plan, in order
	Columns     examples.Columns      `tensor:"columns,text,omitzero"`    // table columns of the features; nil: unknown
	Increments  []coverage.Increment  `tensor:"increments,text,omitzero"` // full run of a chain: the increments with their accepted messages
	Skipped     coverage.Spans        `header:"skipped,omitzero"`         // chain: messages in the spans that are not included
}

// SplitRows are numbers of rows of each split. In a header, spaces separate them.
type SplitRows [examples.Splits]int64

// MarshalText implements encoding.TextMarshaler.
func (s SplitRows) MarshalText() ([]byte, error) {
	return []byte(strings.Trim(fmt.Sprint([examples.Splits]int64(s)), "[]")), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *SplitRows) UnmarshalText(text []byte) error {
	_, err := fmt.Sscan(string(text), &s[examples.Train], &s[examples.Holdout], &s[examples.Test])
	return err
}

// Check returns an error for impossible columns and spans.
func (s *SurveyResult) Check() error {
	return cmp.Or(s.Columns.Check(), coverage.Check(s.Skipped))
}
