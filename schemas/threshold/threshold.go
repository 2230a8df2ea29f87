// Package threshold is the value of the key threshold: the minimum probability for predicting the second of two classes.
//
//	0.5, best_f1, {cost: {fp: 1, fn: 20}} ──Parse, JSON──▶ Rule ──Cost(statistics.Decision)──▶ the cost that the threshold minimises
package threshold

import (
	"encoding/json"
	"errors"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// Rule determines the threshold of a version. The zero value is no threshold: the most probable class is predicted. Rules are comparable.
type Rule struct {
	At     float64 // threshold, between 0 and 1; 0: chosen on holdout rows, or none
	BestF1 bool    // choose the highest F1 of the second class
	Costs  Costs   // choose the lowest cost; zero: no costs
}

// Costs are the costs of wrong rows, relative to each other. Both are positive.
type Costs struct {
	FP float64 `json:"fp"` // false positive: the second class is predicted for a row of the first
	FN float64 `json:"fn"` // false negative: the first class is predicted for a row of the second
}

// Half is the threshold that is equivalent to no rule.
const Half = 0.5

// bestF1 is the word of the rule.
const bestF1 = "best_f1"

var errRule = errors.New("threshold: expected a number between 0 and 1, best_f1, or the costs of wrong rows, as in {cost: {fp: 1, fn: 20}}")

// IsZero reports whether there is no threshold.
func (r Rule) IsZero() bool { return r == Rule{} }

// Chosen reports whether the threshold is chosen on holdout rows.
func (r Rule) Chosen() bool { return r.BestF1 || r.Costs != Costs{} }

// Cost returns the cost that the best threshold minimises.
func (r Rule) Cost(d statistics.Decision) float64 {
	if r.BestF1 {
		return -d.F1()
	}
	return r.Costs.FP*d[0][1] + r.Costs.FN*d[1][0]
}

// String returns the JSON, without quotes around a word.
func (r Rule) String() string {
	if r.BestF1 {
		return bestF1
	}
	text, _ := r.MarshalJSON() // numbers have JSON
	return string(text)
}

// MarshalJSON writes a number, "best_f1", or the costs.
func (r Rule) MarshalJSON() ([]byte, error) {
	switch {
	case r.BestF1:
		return json.Marshal(bestF1)
	case r.Chosen():
		return json.Marshal(map[string]Costs{"cost": r.Costs})
	case r.At > 0:
		return json.Marshal(r.At)
	}
	return json.Marshal(Half)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *Rule) UnmarshalJSON(content []byte) error {
	var parsed Rule
	var valid bool
	var number float64
	var word string
	var rule map[string]map[string]float64
	switch {
	case json.Unmarshal(content, &number) == nil:
		if number != Half {
			parsed.At = number
		}
		valid = number > 0 && number < 1
	case json.Unmarshal(content, &word) == nil:
		parsed.BestF1, valid = true, word == bestF1
	case json.Unmarshal(content, &rule) == nil && len(rule) == 1 && len(rule["cost"]) == 2:
		parsed.Costs = Costs{FP: rule["cost"]["fp"], FN: rule["cost"]["fn"]}
		valid = parsed.Costs.FP > 0 && parsed.Costs.FN > 0
	}
	if !valid {
		return errRule
	}
	*r = parsed
	return nil
}
