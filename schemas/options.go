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

// Prepare configures the preparation of raw features for the stages. Features are scaled by Scale, and then centred at their mean over the
// training rows.
type Prepare struct {
	// Scale is none, standard (divides each feature by its standard deviation), unit (divides each example by its Euclidean length) or
	// ranks (replaces the values of each feature by their normal scores).
	Scale string `json:"scale"`
	PCA   int    `json:"pca"` // number of principal components; 0: no PCA

	MinRows int `json:"min_rows,omitempty"` // sparse rows: columns in fewer training rows are left out
	// sparse rows: transformation of each value: none, log1p, sqrt or binary; "": none
	Values string `json:"values,omitempty"`
	// sparse rows: power of the inverse document frequency that multiplies a column
	IDF float64 `json:"idf,omitempty"`
}

// Stage configures the block of a stage and its fit.
type Stage struct {
	Features Features `json:"features"` // features of the block
	Link     Link     `json:"link"`     // identity, softmax, logistic or calibrated
	// Basis are the powers of predictions that a learnt link is fitted to; absent: 1, 2 and 3.
	Basis  []int  `json:"basis,omitempty"`
	Passes int    `json:"passes"` // maximum number of visits that compute a loss and a gradient
	Ridge  Ridge  `json:"ridge"`  // λ = ridge · trace(S)/p; auto: chosen by the solver
	Method string `json:"method"` // see package solve
	// GramRows sets how many rows the Gram matrix sums; see package solve.
	GramRows string `json:"gram_rows"`
	Scores   bool   `json:"scores"`         // adds the previous predictions as k more features
	Stop     *Stop  `json:"stop,omitempty"` // early stopping; absent: only Passes ends the stage
	// Drawn are the draws of earlier stages that draw columns without replacement: this stage continues where they ended. Plans set it,
	// configurations don't. Empty: the stage draws independently, as does the first such stage.
	Drawn []Draw  `json:"drawn,omitempty" yaml:"-"`
	Rate  float64 `json:"rate,omitempty"` // factor of the fitted weights, except those of the intercept; 0: 1
	// RidgeRows is the minimum number of rows with even odds that the ridge of a block of trees is equivalent to in each leaf. 0:
	// unspecified.
	RidgeRows float64 `json:"ridge_rows,omitempty"`
	// Temperature divides the scores that the model predicts with, if the stage is the last one, or the last of a member. The fit of the
	// stage does not depend on it. 0: 1
	Temperature float64 `json:"temperature,omitempty"`
}

// Draw is the columns that a stage of a plan draws.
type Draw struct {
	Stage int `json:"stage"` // stage number
	Size  int `json:"size"`  // number of columns
}

// Stop ends a stage early, when the loss of a split has not fallen for Patience passes.
type Stop struct {
	Split    string `json:"split"`            // holdout | test
	Patience int    `json:"patience"`         // passes without improvement, at least 1
	Stages   bool   `json:"stages,omitempty"` // ends the stages of a job; false in a plan
}

// Features configures the features of a block.
type Features struct {
	Kind string `json:"kind"` // see package stages
	Size int    `json:"size"` // p, the number of features; columns: 0 means all
	// BandwidthScale multiplies the bandwidth of random Fourier features; see package stages.
	BandwidthScale float64 `json:"bandwidth_scale"`
	Degree         int     `json:"degree"`      // polynomial: maximum degree
	Replacement    bool    `json:"replacement"` // columns: drawn with replacement
	// Weight is the factor of the logarithms of class_counts; 0 for other kinds.
	Weight Weight `json:"weight,omitempty"`
	Rounds int    `json:"rounds,omitempty"` // gradient: maximum number of turns of each input; 0: as many as the passes allow

	Leaves int `json:"leaves,omitempty"` // trees: maximum number of leaves of a tree
	Sample int `json:"sample,omitempty"` // trees: number of training rows that a stage grows its trees on

	// The following fields are for the kind patches; see package stages. Other kinds have zeros.

	Patch    int     `json:"patch,omitempty"`    // patches: height and width of a patch, in pixels
	Filters  int     `json:"filters,omitempty"`  // patches: number of filters
	Grid     int     `json:"grid,omitempty"`     // patches: responses are summed over grid × grid cells
	Overlap  int     `json:"overlap,omitempty"`  // patches: positions by which a cell extends into its neighbours
	Root     bool    `json:"root,omitempty"`     // patches: takes the square root of 1 + each sum
	Rectify  float64 `json:"rectify,omitempty"`  // patches: threshold α of a response z: max(z − α, 0) and max(−z − α, 0)
	Whiten   float64 `json:"whiten,omitempty"`   // patches: added to the variances of patches before whitening
	Contrast float64 `json:"contrast,omitempty"` // patches: added to the variance of a patch, as a fraction of the mean variance
	Mirror   bool    `json:"mirror,omitempty"`   // patches: adds the responses of the mirrored image
	Source   string  `json:"source,omitempty"`   // patches: origin of the filters: data, gaussian or kmeans
}

// Link is the name of a link of package internal/link. A link maps scores to predictions and defines the unit of scores.
type Link string

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
