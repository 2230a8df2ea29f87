package schemas

// Thresholds are the least probabilities of labels that a row is given, of rows that may have several: for each metric the one that is best for it,
// on holdout rows. Without such rows it is 1/2.
type Thresholds struct {
	Hamming        float64 `json:"hamming"`         // of the least Hamming loss
	MicroF1        float64 `json:"micro_f1"`        // of the best micro-F1: predictions give labels by it
	MacroF1        float64 `json:"macro_f1"`        // of the best macro-F1
	SubsetAccuracy float64 `json:"subset_accuracy"` // of the best subset accuracy
}
