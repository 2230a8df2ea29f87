package schemas

// Prepare configures the preparation of raw features for the stages. They are scaled as Scale says, and then centred at their mean
// over the training rows.
type Prepare struct {
	// Scale is none, standard (each feature is divided by its standard deviation) or unit (each example is divided by its
	// Euclidean length).
	Scale string `json:"scale"`
	PCA   int    `json:"pca"` // number of principal components; 0: the features themselves

	// These are for sparse rows.
	MinRows int     `json:"min_rows,omitempty" mapstructure:"min_rows"` // columns in fewer training rows are left out
	Values  string  `json:"values,omitempty"`                           // what becomes of each value: none, log1p, sqrt or binary; "": none
	IDF     float64 `json:"idf,omitempty"`                              // the power of the inverse document frequency that multiplies a column
}

// Stage configures the block of a stage and its fit.
type Stage struct {
	Features Features `json:"features"` // what the block is made of
	Link     Link     `json:"link"`     // identity, softmax or calibrated
	// Basis is the powers of predictions that a link is fitted to that is learnt; nil: 1, 2 and 3.
	Basis  []int  `json:"basis,omitempty"`
	Passes int    `json:"passes"` // maximum number of visits that give a loss and a gradient
	Ridge  Ridge  `json:"ridge"`  // λ = ridge · trace(S)/p; auto: chosen by the solver
	Method string `json:"method"` // see package solve
	// GramRows says how many rows the Gram matrix is made of; see package solve.
	GramRows string `json:"gram_rows" mapstructure:"gram_rows"`
	Scores   bool   `json:"scores"`         // adds the previous predictions as k more features
	Stop     *Stop  `json:"stop,omitempty"` // nil: only Passes ends the stage
	// Drawn are the draws of the stages before, which draw columns without replacement: this one goes on where they ended. Plans make it, and
	// not configurations. None: the stage draws by itself, as the first one does, and all in plans of earlier releases.
	Drawn []Draw  `json:"drawn,omitempty" mapstructure:"-"`
	Rate  float64 `json:"rate,omitempty"` // multiplies the fitted weights, except those of the intercept; 0: 1
	// RidgeRows is how many rows of even odds the ridge of a block of trees stands for in each leaf, at least. 0: that is not said, as in
	// plans of earlier releases.
	RidgeRows float64 `json:"ridge_rows,omitempty" mapstructure:"ridge_rows"`
}

// Draw is columns that a stage of a plan has drawn.
type Draw struct {
	Stage int `json:"stage"` // its number
	Size  int `json:"size"`  // number of columns
}

// Stop ends a stage early, when the loss of a split has not fallen for Patience passes.
type Stop struct {
	Split    string `json:"split"`            // holdout | test
	Patience int    `json:"patience"`         // passes, at least 1
	Stages   bool   `json:"stages,omitempty"` // it ends the stages of a job; in a plan false
}

// Features configures the features of a block.
type Features struct {
	Kind string `json:"kind"` // see package stages
	Size int    `json:"size"` // p, the number of features; columns: 0 is all
	// BandwidthScale multiplies the bandwidth of random Fourier features; see package stages.
	BandwidthScale float64 `json:"bandwidth_scale" mapstructure:"bandwidth_scale"`
	Degree         int     `json:"degree"`      // polynomial: the maximum degree
	Replacement    bool    `json:"replacement"` // columns: they are drawn with replacement
	// Weight is what the logarithms of class_counts are multiplied by. Other kinds have 0.
	Weight Weight `json:"weight,omitempty"`
	Rounds int    `json:"rounds,omitempty"` // gradient: how often each input has its turn, at most; 0: as often as the passes allow

	Leaves int `json:"leaves,omitempty"` // trees: leaves of a tree at most
	Sample int `json:"sample,omitempty"` // trees: training rows that a stage grows its trees on

	// What follows is of the kind patches; see package stages. Other kinds have zeros.

	Patch    int     `json:"patch,omitempty"`    // patches: height and width of a patch, in pixels
	Filters  int     `json:"filters,omitempty"`  // number of filters
	Grid     int     `json:"grid,omitempty"`     // responses are summed over grid × grid cells
	Overlap  int     `json:"overlap,omitempty"`  // positions by which a cell reaches into those beside it
	Root     bool    `json:"root,omitempty"`     // takes the square root of 1 + each sum
	Rectify  float64 `json:"rectify,omitempty"`  // threshold α of a response z: max(z − α, 0) and max(−z − α, 0)
	Whiten   float64 `json:"whiten,omitempty"`   // added to the variances of patches before they are whitened
	Contrast float64 `json:"contrast,omitempty"` // added to the variance of a patch, as part of the mean variance
	Mirror   bool    `json:"mirror,omitempty"`   // adds the responses of the mirrored image
	Source   string  `json:"source,omitempty"`   // where filters are from: data, gaussian or kmeans
}

// Link is the name of a link of package internal/link. A link makes predictions from scores and defines their unit.
type Link string
