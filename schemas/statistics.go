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

// Score is what a sum says of one split.
type Score struct {
	Weight float64 // Σw of its labelled rows
	Rows   float64 // how many they are
	Errors float64 // Σw of those whose class is wrong
	Loss   float64 // Σw·loss, the link's own
}

// ScoreFields is the length of a split's row in the field splits.
const ScoreFields = 4

// MeanLoss is the weighted mean of the loss; 0 without weight.
func (s Score) MeanLoss() float64 { return ratio(s.Loss, s.Weight) }

// ErrorPercent is the weighted share of wrong rows; 0 without weight.
func (s Score) ErrorPercent() float64 { return 100 * ratio(s.Errors, s.Weight) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ScoresOf reads the splits' scores from statistics; zeros if there are none.
func ScoresOf(t Tensors[float64]) (scores [Splits]Score) {
	data, err := t.Shaped(FieldSplits, Splits, ScoreFields)
	if err != nil {
		return scores
	}
	for i := range scores {
		at := data[i*ScoreFields:]
		scores[i] = Score{at[0], at[1], at[2], at[3]}
	}
	return scores
}
