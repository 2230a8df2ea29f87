package schemas

import (
	"encoding/json"
	"errors"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// ThresholdRule is the value of the key `threshold`. It determines the minimum probability for predicting the second of two classes. The
// zero value is no threshold: the most probable class is predicted. Rules are comparable.
type ThresholdRule struct {
	At     float64        // threshold, between 0 and 1; 0: chosen on holdout rows, or none
	BestF1 bool           // choose the highest F1 of the second class
	Costs  ThresholdCosts // choose the lowest cost; zero: no costs
}

// ThresholdCosts are the costs of wrong rows, relative to each other. Both are positive.
type ThresholdCosts struct {
	FP float64 `json:"fp"` // false positive: the second class is predicted for a row of the first
	FN float64 `json:"fn"` // false negative: the first class is predicted for a row of the second
}

// halfThreshold is the threshold that is equivalent to no rule.
const halfThreshold = 0.5

// bestF1 is the word of the rule.
const bestF1 = "best_f1"

var errThreshold = errors.New("threshold: expected a number between 0 and 1, best_f1, or the costs of wrong rows, " +
	"as in {cost: {fp: 1, fn: 20}}")

// IsZero reports whether there is no threshold.
func (r ThresholdRule) IsZero() bool { return r == ThresholdRule{} }

// Chosen reports whether the threshold is chosen on holdout rows.
func (r ThresholdRule) Chosen() bool { return r.BestF1 || r.Costs != ThresholdCosts{} }

// Cost returns the cost that the best threshold minimises.
func (r ThresholdRule) Cost(d statistics.Decision) float64 {
	if r.BestF1 {
		return -d.F1()
	}
	return r.Costs.FP*d[0][1] + r.Costs.FN*d[1][0]
}

// String returns the JSON, without quotes around a word.
func (r ThresholdRule) String() string {
	if r.BestF1 {
		return bestF1
	}
	text, _ := r.MarshalJSON() // numbers have JSON
	return string(text)
}

// MarshalJSON writes a number, "best_f1", or the costs.
func (r ThresholdRule) MarshalJSON() ([]byte, error) {
	switch {
	case r.BestF1:
		return json.Marshal(bestF1)
	case r.Chosen():
		return json.Marshal(map[string]ThresholdCosts{"cost": r.Costs})
	case r.At > 0:
		return json.Marshal(r.At)
	}
	return json.Marshal(halfThreshold)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *ThresholdRule) UnmarshalJSON(content []byte) error {
	var parsed ThresholdRule
	var valid bool
	var number float64
	var word string
	var rule map[string]map[string]float64
	switch {
	case json.Unmarshal(content, &number) == nil:
		if number != halfThreshold {
			parsed.At = number
		}
		valid = number > 0 && number < 1
	case json.Unmarshal(content, &word) == nil:
		parsed.BestF1, valid = true, word == bestF1
	case json.Unmarshal(content, &rule) == nil && len(rule) == 1 && len(rule["cost"]) == 2:
		parsed.Costs = ThresholdCosts{FP: rule["cost"]["fp"], FN: rule["cost"]["fn"]}
		valid = parsed.Costs.FP > 0 && parsed.Costs.FN > 0
	}
	if !valid {
		return errThreshold
	}
	*r = parsed
	return nil
}
