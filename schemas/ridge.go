package schemas

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// Ridge is the value of a stage's key `ridge`: λ = ridge · trace(S)/p. The zero value is no ridge.
type Ridge float64

// RidgeAuto stands for the ridge that the solver chooses from the data. No number ≥ 0 equals it.
const RidgeAuto Ridge = -1

// ridgeAuto is the text of RidgeAuto.
const ridgeAuto = "auto"

var errRidge = errors.New("ridge: expected auto or a number ≥ 0")

// Valid reports whether the ridge is RidgeAuto or a finite number ≥ 0.
func (r Ridge) Valid() bool { return r == RidgeAuto || r >= 0 && !math.IsInf(float64(r), 1) }

// ParseRidge is the inverse of [Ridge.String].
func ParseRidge(text string) (Ridge, error) {
	if text == ridgeAuto {
		return RidgeAuto, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if r := Ridge(v); err == nil && r != RidgeAuto && r.Valid() {
		return r, nil
	}
	return 0, errRidge
}

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
	text := ""
	if json.Unmarshal(content, &text) != nil {
		text = string(content)
	} else if text != ridgeAuto {
		return errRidge // a number in quotes
	}
	parsed, err := ParseRidge(text)
	if err == nil {
		*r = parsed
	}
	return err
}

// Weight is the factor of the scores of some features: a number ≥ 0 or WeightAuto, written like a ridge.
type Weight = Ridge

// WeightAuto stands for the weight that the solver chooses by the error on holdout rows.
const WeightAuto = RidgeAuto

var errWeight = errors.New("weight: expected a number ≥ 0")
