package schemas

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
