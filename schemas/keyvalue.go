package schemas

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// ClassWeight is the value of the key `class_weight`: the factors of the weights of training rows, by
// class. The zero value is 1 for every class.
type ClassWeight struct {
	// Balanced gives every class the same weight: n/(k·c), for a class with c of the n rows of k classes.
	Balanced bool
	// By has the factors of labels, finite and ≥ 0. The default is 1.
	By map[string]float64
}

// Values of the key `class_weight` that are words.
const (
	classWeightNone     = "none"
	classWeightBalanced = "balanced"
)

var errClassWeight = errors.New("class_weight: expected none, balanced, or a number ≥ 0 for each of some labels")

// IsZero reports whether the factor of every class is 1.
func (w ClassWeight) IsZero() bool { return !w.Balanced && len(w.By) == 0 }

// Equal reports whether two class weights are the same.
func (w ClassWeight) Equal(o ClassWeight) bool {
	return w.Balanced == o.Balanced && maps.Equal(w.By, o.By)
}

// Valid reports whether the factors are finite and ≥ 0.
func (w ClassWeight) Valid() bool {
	for _, factor := range w.By {
		if !(factor >= 0) || math.IsInf(factor, 1) {
			return false
		}
	}
	return true
}

// String returns the JSON, without quotes around a word.
func (w ClassWeight) String() string { return unquoted(w) }

// unquoted returns the JSON of a value of a key, without quotes around a word.
func unquoted(value json.Marshaler) string {
	text, _ := value.MarshalJSON() // words and numbers have JSON
	return strings.Trim(string(text), `"`)
}

// MarshalJSON writes "none", "balanced", or an object of the factors.
func (w ClassWeight) MarshalJSON() ([]byte, error) {
	switch {
	case w.Balanced:
		return json.Marshal(classWeightBalanced)
	case len(w.By) == 0:
		return json.Marshal(classWeightNone)
	}
	return json.Marshal(w.By)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (w *ClassWeight) UnmarshalJSON(content []byte) error {
	read := ClassWeight{}
	switch string(content) {
	case `"` + classWeightNone + `"`:
	case `"` + classWeightBalanced + `"`:
		read.Balanced = true
	default:
		if json.Unmarshal(content, &read.By) != nil || len(read.By) == 0 || !read.Valid() {
			return errClassWeight
		}
	}
	*w = read
	return nil
}

// Ridge is the value of a stage's key `ridge`: λ = ridge · trace(S)/p. The zero value is no ridge.
type Ridge float64

// RidgeAuto stands for the ridge that the solver chooses from the data. No number ≥ 0 equals it.
const RidgeAuto Ridge = -1

// ridgeAuto is the text of RidgeAuto.
const ridgeAuto = "auto"

var errRidge = errors.New("ridge: expected auto or a number ≥ 0")

// Valid reports whether the ridge is RidgeAuto or a finite number ≥ 0.
func (r Ridge) Valid() bool { return r == RidgeAuto || r >= 0 && !math.IsInf(float64(r), 1) }

// String returns auto, or the shortest decimal form of the number.
func (r Ridge) String() string {
	if r == RidgeAuto {
		return ridgeAuto
	}
	return strconv.FormatFloat(float64(r), 'g', -1, 64)
}

// MarshalJSON writes "auto" or a number.
func (r Ridge) MarshalJSON() ([]byte, error) {
	if r == RidgeAuto {
		return json.Marshal(ridgeAuto)
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *Ridge) UnmarshalJSON(content []byte) error {
	v, err := strconv.ParseFloat(string(content), 64)
	switch {
	case string(content) == `"`+ridgeAuto+`"`:
		*r = RidgeAuto
	case err != nil || !(v >= 0) || math.IsInf(v, 1):
		return errRidge
	default:
		*r = Ridge(v)
	}
	return nil
}

// Weight is the factor of the scores of some features: a number ≥ 0 or WeightAuto, written like a ridge.
type Weight = Ridge

// WeightAuto stands for the weight that the solver chooses by the error on holdout rows.
const WeightAuto = RidgeAuto

var errWeight = errors.New("weight: expected a number ≥ 0")

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
func (r ThresholdRule) String() string { return unquoted(r) }

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
