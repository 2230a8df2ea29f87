package schemas

// Fields of statistics. Only training rows enter cross and gram; Σ is over
// rows, w are their weights.
const (
	FieldSplits    = "splits"    // [3, 4]: for each split Σw, rows, Σw of wrong rows, Σw·loss
	FieldCross     = "cross"     // [p, k]: Σ w x rᵀ
	FieldGram      = "gram"      // [p(p+1)/2]: Σ w x xᵀ, its lower triangle row by row
	FieldGramRows  = "gram_rows" // [1]: Σw of the rows behind gram
	FieldTrace     = "trace"     // [1]: Σ w |x|² of all rows over the penalised columns, where gram is of a sample
	FieldSums      = "sums"      // [d]: Σ w x of the survey
	FieldSquares   = "squares"   // [d]: Σ w x² of the survey
	FieldPresent   = "present"   // [d]: Σ w of the rows in which a feature is there
	FieldQuality   = "quality"   // [3, 2]: for each split Σw·log loss and Σw·Brier score of the probabilities
	FieldBins      = "bins"      // [3, 15, 3]: for each bin of confidence Σw, Σw·confidence, Σw of right rows
	FieldConfusion = "confusion" // [3, k, k]: rows by true and predicted class
	FieldLabels    = "labels"    // text: the labels that the survey found
	FieldSample    = "sample"    // [n, d] of a sample record: raw rows
	FieldDraws     = "draws"     // text of a sample record: each row's hash, 16 hexadecimal digits
)

// Tensors of weights.
const (
	TensorCenter      = "center"      // [d], survey: the mean of each scaled feature
	TensorScale       = "scale"       // [d], survey: what a centred feature is multiplied by; 0 for a constant one
	TensorBasis       = "basis"       // [d, m], survey: principal directions; absent without
	TensorSpread      = "spread"      // [1], survey: the median squared distance between inputs
	TensorLabels      = "labels"      // text, survey: the classes
	TensorCovered     = "covered"     // text, survey: what each partition's sums are over, as JSON
	TensorW           = "W"           // [p, k], a visit's weights
	TensorReport      = "report"      // text, a report: its JSON, cut into pieces
	TensorCalibration = "calibration" // [3k, k], from cubic features to predictions
)

// Losses are the sums over the labelled rows of one split.
type Losses struct {
	Weight float64 // Σw
	Rows   float64 // number of rows
	Errors float64 // Σw of the rows whose predicted class is wrong
	Loss   float64 // Σw·loss, with the loss of the stage's link
}

// LossFields is the length of a split's row in the field splits.
const LossFields = 4

// MeanLoss is the weighted mean of the loss; 0 without weight.
func (s Losses) MeanLoss() float64 { return ratio(s.Loss, s.Weight) }

// ErrorPercent is the weighted share of wrong rows; 0 without weight.
func (s Losses) ErrorPercent() float64 { return 100 * ratio(s.Errors, s.Weight) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// LossesOf reads the losses of each split from statistics. They are zero if there are none.
func LossesOf(t Tensors[float64]) (losses [Splits]Losses) {
	data, err := t.Shaped(FieldSplits, Splits, LossFields)
	if err != nil {
		return losses
	}
	for i := range losses {
		at := data[i*LossFields:]
		losses[i] = Losses{at[0], at[1], at[2], at[3]}
	}
	return losses
}
