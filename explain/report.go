package explain

// Regression is the task of a model of numbers.
const Regression = "regression"

// Report explains the predictions of a model for labelled rows.
type Report struct {
	Version    int        `json:"version"`
	Task       string     `json:"task"`   // classification or [Regression]
	Labels     []string   `json:"labels"` // or the names of numbers
	Rows       int        `json:"rows"`
	Unlabelled int64      `json:"unlabelled,omitempty"` // rows left out, which have no label
	Unknown    int64      `json:"unknown,omitempty"`    // rows left out, whose label the model does not have
	Measures   Measures   `json:"measures"`
	Shuffles   int        `json:"shuffles"`   // permutations of each column
	Importance []Column   `json:"importance"` // the most important column first
	Dependence []Curve    `json:"dependence"`
	Slices     []Slices   `json:"slices"`
	Wrong      []WrongRow `json:"wrong"` // the largest loss first
}

// Column is how much worse predictions get when the column has the values of other rows: the means over permutations, and their standard
// deviations.
type Column struct {
	Name      string   `json:"name"`
	Rise      Measures `json:"rise"`
	Deviation Measures `json:"deviation"`
}

// Curve is the partial dependence of predictions on a column: what they are on average if all rows have this value.
type Curve struct {
	Name   string       `json:"name"`
	Points []CurvePoint `json:"points"`
}

// CurvePoint is a point of a curve.
type CurvePoint struct {
	Value string    `json:"value"`
	Rows  int       `json:"rows"` // of words: how many rows have this one
	Mean  []float64 `json:"mean"` // probability of each label, or each number
}

// Slices are the rows by the values of a column.
type Slices struct {
	Name   string  `json:"name"`
	Slices []Slice `json:"slices"`
}

// Slice is the rows with a value.
type Slice struct {
	Value string `json:"value"` // a word, or a range of numbers
	Rows  int    `json:"rows"`
	Measures
}

// WrongRow is a row that is predicted badly.
type WrongRow struct {
	Row         int64     `json:"row"` // of the table, from 0
	Label       string    `json:"label,omitempty"`
	Predicted   string    `json:"predicted,omitempty"`
	Probability float64   `json:"probability,omitempty"` // of the label
	Numbers     []float64 `json:"numbers,omitempty"`     // that were to be predicted
	Predictions []float64 `json:"predictions,omitempty"`
	Loss        float64   `json:"loss"`
}
