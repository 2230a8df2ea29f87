package statistics

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Names of the tensors of statistics. Σ is over rows, and w are their weights. Only training rows are part of cross and
// gram.
const (
	FieldSplits    = "splits"     // [3, 4]: for each split Σw, rows, Σw of wrong rows, Σw·loss
	FieldCross     = "cross"      // [p, k]: Σ w x rᵀ
	FieldGram      = "gram"       // [p(p+1)/2]: Σ w x xᵀ, its lower triangle row by row
	FieldLeave     = "leave"      // as gram, of the rows that leave the window of a chain, times the weights of their increments
	FieldLeaveRows = "leave_rows" // [1]: Σw of the forgotten rows of leave, times the weights of their increments
	// [2], survey of a chain: Σw and Σw·loss of the version that subscribers have, of the rows that the gate is about
	FieldOffered  = "offered"
	FieldGramRows = "gram_rows" // [1]: Σw of the rows that gram sums
	FieldTrace    = "trace"     // [1]: Σ w |x|² of all rows over the penalised columns, if gram sums only a sample of the rows
	// [m], of a chain: how many rows of each increment are forgotten; absent if there are none. The survey has it of the increments of a full
	// run, or of the new one of an update; visits of an update have it of the increments that they visit, 0 of the new one
	FieldForgotten = "forgotten"
	FieldOverflow  = "overflow" // [1]: rows whose inputs or features overflow, in the first visit of a stage; absent if there are none
	FieldDiagonal  = "diagonal" // [p]: Σ w x², of sparse rows, in the first visit of a stage
	FieldBounds    = "bounds"   // [p]: Σ w |x| |row|₁, of sparse rows, in the first visit of a stage
	// [m, 2]: Σ w x xᵀ over the inputs of a block and the intercept: the place in gram of each value that is not 0, and
	// the value; cross is then [n, k]
	FieldBlock     = "block"
	FieldResidual  = "residual"  // [2]: Σ w |r|² and Σ w² of the training rows, in the first visit of a stage whose ridge is auto
	FieldSums      = "sums"      // [d]: Σ w x of the survey
	FieldSquares   = "squares"   // [d]: Σ w x² of the survey
	FieldPresent   = "present"   // [d]: Σ w of the rows in which the feature is present
	FieldQuality   = "quality"   // [3, 2]: for each split Σw·log loss and Σw·Brier score of the probabilities
	FieldBins      = "bins"      // [3, 15, 3]: for each bin of confidence Σw, Σw·confidence, Σw of right rows
	FieldConfusion = "confusion" // [3, k, k]: rows by true and predicted class
	FieldTargets   = "targets"   // [3, k]: Σw, Σ w y and Σ w y² of the training rows' numbers y less the target shift, in the survey
	FieldDistances = "distances" // [3, k, 4]: for each split and number Σ w e², Σ w|e|, Σ w y and Σ w y², of e = y − prediction
	// [3, 100, 2, k]: for each split Σw of rows by the hundredth of a label's probability, and whether they lack or have
	// it
	FieldHits = "hits"
	// [3, 101]: for each split Σw of rows whose labels are all right from a threshold on, less those from it on no longer
	FieldSubset = "subset"
	// [3, 4, k], rows of one label: for each split and class rows and Σw of it, Σw of rows predicted so, and of those that are right
	FieldClasses = "classes"
	// [m, 2], as classes: histograms of the probability of each class; of two classes of the second. Of each value that is not 0 its place in
	// [3, k, bins, 2], and the value: for each split, class and bin Σw of rows that are not of the class, and of those that are
	FieldRanking = "ranking"
	// [3, 2, 2], two classes: for each split and true class Σw of rows by whether a threshold gives them the second class
	FieldDecided    = "decided"
	FieldRanks      = "ranks"      // [3, 3]: for each split Σ w·(the part of the 1, 3 and 5 most probable labels that the row has)
	FieldCalibrated = "calibrated" // [2]: Σ w|y|² and Σw of the holdout rows that a calibration is fitted to
	FieldCounts     = "counts"     // [p, k]: Σ w x yᵀ, of a stage whose weights are counted
	FieldTrials     = "trials"     // [n, 3]: for each weight of such a stage Σw, Σw of wrong rows and Σw·loss of the holdout rows
	FieldLabels     = "labels"     // text: the labels that the survey found
	FieldLabelRows  = "label_rows" // [n]: how many training rows each of these labels has
	FieldWords      = "words"      // [c, 256, k+1], of a visit that trees are grown from: Σ w r and Σ w h of each word of each column
	FieldSample     = "sample"     // [n, d] of a sample record: raw rows
	FieldDraws      = "draws"      // text, of a sample record: each row's hash, 16 hexadecimal digits
)

// PartAverage is what the names of sums begin with, and a slash, that are of the mean of the members of a plan, in the
// seal of the last stage of a member: as average/splits.
const PartAverage = "average"

// Names of the tensors of weights, of the survey's result and of a report.
const (
	TensorFactors = "factors" // [d], survey of sparse rows: the factor of each column; 0: it is left out
	// In place of factors in a chain: the columns that have one, as block, and their factors
	TensorFactorColumns = "factor_columns" // [m, 2]
	TensorFactorValues  = "factor_values"  // [m]
	TensorCenter        = "center"         // [d], survey: the mean of each scaled feature
	TensorScale         = "scale"          // [d], survey: the factor of each centred feature; 0 for a constant feature
	TensorBasis         = "basis"          // [d, m], survey: principal directions; absent without PCA
	TensorSpread        = "spread"         // [1], survey: the median squared distance between inputs
	TensorClassWeight   = "class_weight"   // [k], survey: the factor of the weights of training rows of each class; absent: 1
	TensorTargetCenter  = "target_center"  // [k], survey: the mean of each number that is predicted
	TensorTargetRest    = "target_rest"    // [k], survey: what target_center, being float32, leaves of the mean; absent: 0
	TensorTargetScale   = "target_scale"   // [k], survey: its standard deviation: a stage predicts the standardised number
	TensorImage         = "image"          // [3], survey: height, width and channels of the images; absent if the examples are none
	TensorWhitening     = "whitening"      // [q, q], survey, of a stage of patches: see [OfStage]
	TensorOffset        = "offset"         // [q], as whitening: the whitened mean of patches
	TensorFilters       = "filters"        // [q, f], as whitening: one a column
	TensorContrast      = "contrast"       // [1], as whitening: what is added to the variance of a patch
	TensorMean          = "mean"           // [p], as whitening: of each pooled response
	TensorFactor        = "factor"         // [p], as whitening: of each centred pooled response
	TensorBins          = "bins"           // [c, 2], survey, for trees: of each column how many features and how many edges it has
	TensorEdges         = "edges"          // [e], as bins: the edges of all columns
	TensorKnotCounts    = "knot_counts"    // [d], survey, scale ranks: how many knots each feature has
	TensorKnots         = "knots"          // [e, 2], as knot_counts: the knots of all features, a number and its normal score each
	TensorMissing       = "missing"        // [q, 3], as knot_counts: features with an input for missing values, its mean and its factor
	TensorLabels        = "labels"         // text, survey: the classes
	TensorCovered       = "covered"        // text, survey: the coverage of each span of the plan, as JSON
	TensorW             = "W"              // [p, k], a visit's weights
	// [n, 2], of the weights of a stage that is fitted in blocks: the inputs that the next step is about, ascending, as
	// 4096·a + b
	TensorBlock   = "block"
	TensorChanged = "changed" // [n, 2], as block: the inputs whose weights are others than those of the visit before
	// [n, k], or [n+1, k] with an intercept: what is added to the weights of these inputs, and of the intercept
	TensorChange      = "change"
	TensorCalibration = "calibration" // [k for each power of the basis, k], from powers of predictions to predictions
	TensorOccurring   = "occurring"   // [m, 2], as block, of an update on sparse rows: the columns whose weights may be others than before it
	TensorRows        = "rows"        // [m, k]: the weights of these columns
	TensorShift       = "shift"       // [k], with occurring: what is added to the weights of all other inputs; absent: nothing
	TensorCounts      = "counts"      // [p, k], of a full run of a chain: what the weights of a counted stage are made of
	// Of the trees of a stage, see package internal/tree: the nodes of each tree, the column of each order, the ranks of
	// its codes, and of each node the order that it compares, its cut, and how many nodes its left side has.
	TensorTreeSizes    = "tree_sizes"
	TensorTreeOrders   = "tree_orders"
	TensorTreeRanks    = "tree_ranks"
	TensorTreeCompared = "tree_compared"
	TensorTreeCuts     = "tree_cuts"
	TensorTreeLefts    = "tree_lefts"
)

// StructureTensors returns the names of the tensors that a record of kind structure has, in their order.
func StructureTensors() []string {
	return []string{TensorTreeSizes, TensorTreeOrders, TensorTreeRanks, TensorTreeCompared, TensorTreeCuts, TensorTreeLefts}
}

// Losses holds sums over the labelled rows of one split.
type Losses struct {
	Weight float64 // Σw
	Rows   float64 // number of rows
	Errors float64 // Σw of the rows whose predicted class is wrong
	Loss   float64 // Σw·loss, with the loss of the stage's link
}

// LossFields is the number of columns of the tensor splits.
const LossFields = 4

// MeanLoss returns the weighted mean of the loss, or 0 if the weight is 0.
func (s Losses) MeanLoss() float64 { return ratio(s.Loss, s.Weight) }

// ErrorPercent returns the weighted percentage of wrong rows, or 0 if the weight is 0.
func (s Losses) ErrorPercent() float64 { return 100 * ratio(s.Errors, s.Weight) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// LossesOf reads the losses of each split from statistics. They are zero if the tensor splits is absent or misshapen.
func LossesOf(t wire.Tensors[float64]) (losses [examples.Splits]Losses) {
	data, err := t.Shaped(FieldSplits, examples.Splits, LossFields)
	if err != nil {
		return losses
	}
	for i := range losses {
		at := data[i*LossFields:]
		losses[i] = Losses{at[0], at[1], at[2], at[3]}
	}
	return losses
}

// OfPreparation reports whether a tensor of that name, in a model file or in the survey's result, is part of the preparation.
func OfPreparation(name string) bool {
	of, _, _ := strings.Cut(name, "/")
	switch of {
	case TensorFactors, TensorFactorColumns, TensorFactorValues,
		TensorCenter, TensorScale, TensorBasis, TensorSpread, TensorImage, TensorClassWeight, TensorTargetCenter,
		TensorTargetRest,
		TensorTargetScale, TensorLabels,
		TensorBins, TensorEdges, TensorKnotCounts, TensorKnots, TensorMissing,
		TensorWhitening, TensorOffset, TensorFilters, TensorContrast, TensorMean, TensorFactor:
		return true
	}
	return false
}

// OfStage returns the name of a tensor of the survey's result that belongs to one stage, counted from 0, such as filters/2.
func OfStage(name string, stage int) string { return fmt.Sprintf("%s/%d", name, stage) }
