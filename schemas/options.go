package schemas

// Prepare says what becomes of raw features before any stage sees them. They
// are scaled as Scale says, then centred at their mean over the training rows.
type Prepare struct {
	// Scale is none, standard (each feature is divided by its deviation) or unit
	// (each example is divided by its Euclidean length).
	Scale string `json:"scale"`
	PCA   int    `json:"pca"` // principal components; 0: the features themselves
}

// Stage is one block and how it is fitted.
type Stage struct {
	Features Features `json:"features"`
	Link     Link     `json:"link"`
	Passes   int      `json:"passes"` // at most: visits that give a loss and a gradient
	Ridge    float64  `json:"ridge"`  // λ = ridge · trace(S)/p
	Method   string   `json:"method"` // package solve has the table of methods
	GramRows string   `json:"gram_rows" mapstructure:"gram_rows"`
	Scores   bool     `json:"scores"` // the previous predictions as k more features
	Stop     *Stop    `json:"stop,omitempty"`
}

// Stop ends a stage when the loss of a split has not fallen for Patience passes.
type Stop struct {
	Split    string `json:"split"` // holdout | test
	Patience int    `json:"patience"`
}

// Features says how a block is generated.
type Features struct {
	Kind           string  `json:"kind"` // package stages has the table of kinds
	Size           int     `json:"size"` // p; columns: 0 is all
	BandwidthScale float64 `json:"bandwidth_scale" mapstructure:"bandwidth_scale"`
	Degree         int     `json:"degree"`      // polynomial: at most
	Replacement    bool    `json:"replacement"` // columns: drawn with replacement
}

// Link is the name of how a score becomes a prediction, and with it of the unit of the score.
type Link string
