// Package threshold is the value of the key threshold: the minimum probability of the second of two classes for a row to be given it.
//
//	0.5, best_f1, {cost: {fp: 1, fn: 20}} ──Parse, JSON──▶ Rule ──Cost(statistics.Decision)──▶ what the best threshold minimises
package threshold

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// Rule says what the threshold of a version is. The zero value is none: a row is given the most probable class. Rules are comparable.
type Rule struct {
	At     float64 // the threshold, between 0 and 1; 0: it is chosen by the holdout rows, or there is none
	BestF1 bool    // it has the highest F1 of the second class
	Costs  Costs   // it has the least cost; zero: it is not chosen so
}

// Costs are what wrong rows cost, relative to each other. Both are positive.
type Costs struct {
	FP float64 `json:"fp"` // of a row that is given the second class and is not of it
	FN float64 `json:"fn"` // of a row of the second class that is not given it
}

// Half is the number that stands for no rule.
const Half = 0.5

// bestF1 is the word of the rule.
const bestF1 = "best_f1"

// Want says what a rule is.
const Want = "a number between 0 and 1, best_f1, or the costs of wrong rows, as in {cost: {fp: 1, fn: 20}}"

var errRule = errors.New("threshold: expected " + Want)

// Number returns the rule of a threshold.
func Number(at float64) (Rule, error) {
	switch {
	case !(at > 0 && at < 1):
		return Rule{}, errRule
	case at == Half:
		return Rule{}, nil
	}
	return Rule{At: at}, nil
}

// Word returns the rule that a word stands for.
func Word(word string) (Rule, error) {
	if word != bestF1 {
		return Rule{}, errRule
	}
	return Rule{BestF1: true}, nil
}

// OfCosts returns the rule of costs.
func OfCosts(c Costs) (Rule, error) {
	if !(c.FP > 0 && c.FN > 0) || math.IsInf(c.FP, 1) || math.IsInf(c.FN, 1) {
		return Rule{}, errRule
	}
	return Rule{Costs: c}, nil
}

// IsZero reports whether there is no threshold.
func (r Rule) IsZero() bool { return r == Rule{} }

// Chosen reports whether the threshold is chosen by the holdout rows.
func (r Rule) Chosen() bool { return r.BestF1 || r.Costs != Costs{} }

// Cost returns what the best threshold minimises.
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
func (r *Rule) UnmarshalJSON(content []byte) (err error) {
	var number float64
	var word string
	var costs struct {
		Cost *Costs `json:"cost"`
	}
	switch {
	case json.Unmarshal(content, &number) == nil:
		*r, err = Number(number)
	case json.Unmarshal(content, &word) == nil:
		*r, err = Word(word)
	case json.Unmarshal(content, &costs) == nil && costs.Cost != nil:
		*r, err = OfCosts(*costs.Cost)
	default:
		err = errRule
	}
	return err
}
