// Package statistics defines the messages from workers to the solver: sums over the rows of a partition for a visit, Gram matrices,
// the survey, samples and seals, as records of tensors with names.
//
//	Visit, Survey, Seal, … ──Record──▶ wire.Record ──VisitOf, SealOf, …──▶ Visit, Survey, Seal, …
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
	FieldSplits = "splits" // [3, 4]: for each split Σw, rows, Σw of wrong rows, Σw·loss
	FieldCross  = "cross"  // [p, k]: Σ w x rᵀ
	FieldGram   = "gram"   // [p(p+1)/2]: Σ w x xᵀ, its lower triangle row by row
	FieldLeave  = "leave"  // as gram, of the rows that leave the window of a chain, multiplied by the weights of their increments
	// [2], survey of a chain: Σw and Σw·loss of the offered version on the gate rows
	FieldOffered  = "offered"
	FieldGramRows = "gram_rows" // [1]: Σw of the rows in gram
	FieldTrace    = "trace"     // [1]: Σ w |x|² of all rows over the penalised columns, if gram sums only a sample of the rows
	// [m], chain: number of forgotten rows of each increment; absent if there are none. The survey has the increments of a full run, or the
	// new one of an update; visits of an update have the visited increments, with 0 for the new one
	FieldForgotten = "forgotten"
	FieldOverflow  = "overflow" // [1], first visit of a stage: rows whose inputs or features overflow; absent if there are none
	FieldDiagonal  = "diagonal" // [p], sparse rows, first visit of a stage: Σ w x²
	FieldBounds    = "bounds"   // [p], sparse rows, first visit of a stage: Σ w |x| |row|₁
	// [m, 2]: the nonzero values of Σ w x xᵀ over the inputs of a block and the intercept: the index in gram, and the value; cross is then
	// [n, k]
	FieldBlock     = "block"
	FieldResidual  = "residual"  // [2], first visit of a stage with ridge auto: Σ w |r|² and Σ w² of the training rows
	FieldSums      = "sums"      // [d], survey: Σ w x
	FieldSquares   = "squares"   // [d], survey: Σ w x²
	FieldPresent   = "present"   // [d], survey: Σ w of the rows in which the feature is present
	FieldQuality   = "quality"   // [3, 2]: for each split Σw·log loss and Σw·Brier score of the probabilities
	FieldBins      = "bins"      // [3, 15, 3]: for each split and confidence bin Σw, Σw·confidence, Σw of right rows
	FieldConfusion = "confusion" // [3, k, k]: rows by true and predicted class
	FieldTargets   = "targets"   // [3, k], survey: Σw, Σ w y and Σ w y² of the targets y of the training rows minus the target shift
	FieldDistances = "distances" // [3, k, 4]: for each split and target Σ w e², Σ w|e|, Σ w y and Σ w y², with e = y − prediction
	// [3, 100, 2, k]: for each split and hundredth of a label's probability Σw of the rows without the label and of the rows with it
	FieldHits = "hits"
	// [3, 101]: for each split and threshold Σw of the rows whose predicted labels become all right, minus Σw of those that stop being so
	FieldSubset = "subset"
	// [3, 4, k], single-label: for each split and class its rows and Σw, Σw of the rows predicted as it, and of those predicted correctly
	FieldClasses = "classes"
	// [m, 2], single-label: histograms of the probability of each class, or of the second of two. Each row is the index of a nonzero value in
	// [3, k, bins, 2], and the value: for each split, class and bin Σw of the rows of other classes, and of the rows of the class
	FieldRanking = "ranking"
	// [3, 2, 2], two classes: for each split and true class Σw of the rows by whether the second class is predicted at a threshold
	FieldDecided    = "decided"
	FieldRanks      = "ranks"      // [3, 3]: for each split Σ w·(fraction of the 1, 3 and 5 most probable labels that the row has)
	FieldCalibrated = "calibrated" // [2]: Σ w|y|² and Σw of the holdout rows that a calibration is fitted to
	FieldTempered   = "tempered"   // [12]: Σw·loss of the holdout rows at each temperature
	FieldCounts     = "counts"     // [p, k], class_counts stage: Σ w x yᵀ
	FieldTrials     = "trials"     // [n, 3], class_counts stage: for each candidate weight Σw, Σw of wrong rows, Σw·loss of the holdout rows
	FieldLabels     = "labels"     // text, survey: the labels
	FieldLabelRows  = "label_rows" // [n], survey: number of training rows of each label
	FieldWords      = "words"      // [c, 256, k+1], visit that trees are grown from: Σ w r and Σ w h of each word of each column
	FieldSample     = "sample"     // [n, d], sample record: raw rows
	FieldDraws      = "draws"      // text, sample record: hash of each row, 16 hexadecimal digits
)

// PartAverage and a slash begin the names of sums for the mean of the members of a plan, in the seal of the last stage of a member, such as
// average/splits.
const PartAverage = "average"

// Names of the tensors of weights, of the survey result and of a report.
const (
	TensorFactors       = "factors"        // [d], sparse rows: factor of each column; 0: the column is left out
	TensorFactorColumns = "factor_columns" // [m, 2], chain, in place of factors: the columns that have a factor, ascending
	TensorFactorValues  = "factor_values"  // [m], chain: the factors of these columns
	TensorCenter        = "center"         // [d]: mean of each scaled feature
	TensorScale         = "scale"          // [d]: factor of each centred feature; 0 for a constant feature
	TensorBasis         = "basis"          // [d, m]: principal directions; absent without PCA
	TensorSpread        = "spread"         // [1]: median squared distance between inputs
	TensorClassWeight   = "class_weight"   // [k]: factor of the weights of training rows of each class; absent: 1
	TensorTargetCenter  = "target_center"  // [k]: mean of each target
	TensorTargetRest    = "target_rest"    // [k]: mean minus the float32 value target_center; absent: 0
	TensorTargetScale   = "target_scale"   // [k]: standard deviation of each target: stages predict standardised targets
	TensorImage         = "image"          // [3]: height, width and channels of the images; absent without images
	TensorWhitening     = "whitening"      // [q, q], patches stage: whitening of patches of q values
	TensorOffset        = "offset"         // [q], patches stage: whitened mean of patches
	TensorFilters       = "filters"        // [q, f], patches stage: one filter per column
	TensorContrast      = "contrast"       // [1], patches stage: added to the variance of a patch
	TensorMean          = "mean"           // [p], patches stage: mean of each pooled response
	TensorFactor        = "factor"         // [p], patches stage: factor of each centred pooled response
	TensorBins          = "bins"           // [c, 2], trees: number of features and number of edges of each column
	TensorEdges         = "edges"          // [e], trees: edges of all columns
	TensorKnotCounts    = "knot_counts"    // [d], scale ranks: number of knots of each feature
	TensorKnots         = "knots"          // [e, 2], scale ranks: knots of all features, each a value and its normal score
	TensorMissing       = "missing"        // [q, 3], scale ranks: features with a missing indicator, and its mean and factor
	TensorLabels        = "labels"         // text: classes
	TensorW             = "W"              // [p, k], weights of a visit
	// [n, 2], weights of a stage fitted in blocks: inputs of the next step, ascending, encoded as a and b of 4096·a + b
	TensorBlock   = "block"
	TensorChanged = "changed" // [n, 2], encoded as in block: inputs whose weights changed since the previous visit
	// [n, k], or [n+1, k] with an intercept: added to the weights of these inputs, and of the intercept
	TensorChange      = "change"
	TensorCalibration = "calibration" // [k for each power of the basis, k]: maps powers of predictions to predictions
	TensorOccurring   = "occurring"   // [m, 2], update on sparse rows, encoded as in block: columns whose weights may have changed
	TensorRows        = "rows"        // [m, k]: weights of these columns
	TensorShift       = "shift"       // [k], with occurring: added to the weights of all other inputs; absent: nothing
	TensorCounts      = "counts"      // [p, k], full run of a chain, class_counts stage: the counts that the weights are computed from
	// Trees of a stage, see package internal/tree.

	TensorTreeSizes    = "tree_sizes"    // [T]: number of nodes of each tree, which has one leaf more
	TensorTreeOrders   = "tree_orders"   // [o]: column of each order that nodes compare
	TensorTreeRanks    = "tree_ranks"    // [256·r]: ranks of the codes in each of the last r orders, which belong to categorical columns
	TensorTreeCompared = "tree_compared" // [n]: order that each node compares, tree after tree, in preorder
	TensorTreeCuts     = "tree_cuts"     // [n]: rows with at most this rank go left
	TensorTreeLefts    = "tree_lefts"    // [n]: number of nodes on the left side
	// [n + T]: weight of the sample's rows in each leaf, tree after tree, from left to right; only contributions need it, and digests of
	// weights leave it out
	TensorTreeCovers = "tree_covers"
)

// StructureTensors returns the names of the tensors of a record of kind structure, in order.
func StructureTensors() []string {
	return []string{TensorTreeSizes, TensorTreeOrders, TensorTreeRanks, TensorTreeCompared, TensorTreeCuts, TensorTreeLefts, TensorTreeCovers}
}

// Losses has sums over the labelled rows of one split.
type Losses struct {
	Weight float64 // Σw
	Rows   float64 // number of rows
	Errors float64 // Σw of the rows whose predicted class is wrong
	Loss   float64 // Σw·loss, with the loss of the stage's link
}

// LossFields is the number of columns of the tensor splits.
const LossFields = 4

// MeanLoss returns the weighted mean of the loss, or 0 if the weight is 0.
func (s Losses) MeanLoss() float64 { return Ratio(s.Loss, s.Weight) }

// ErrorPercent returns the weighted percentage of wrong rows, or 0 if the weight is 0.
func (s Losses) ErrorPercent() float64 { return 100 * Ratio(s.Errors, s.Weight) }

// Ratio returns a/b, or 0 if b is 0.
func Ratio(a, b float64) float64 {
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

// OfPreparation reports whether a tensor of that name, in a model file or in the survey result, is part of the preparation.
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

// OfStage returns the name of a tensor of the survey result that belongs to one stage, counted from 0, such as filters/2.
func OfStage(name string, stage int) string { return fmt.Sprintf("%s/%d", name, stage) }
