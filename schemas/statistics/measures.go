package statistics

// ClassMeasures are metrics of single-label predictions, in addition to the error. Rows are weighted.
type ClassMeasures struct {
	// AUC is the area under the ROC curve of the second of two classes; with more classes, the mean of the one-vs-rest areas, weighted by
	// the rows of each class. Absent with more than 100 classes, or if all rows have the same class.
	AUC              *float64 `json:"auc,omitempty"`
	AveragePrecision *float64 `json:"average_precision,omitempty"` // average precision of the same classes as auc
	// BalancedError is the percentage of wrong rows of a class, averaged over the classes that have rows.
	BalancedError *float64 `json:"balanced_error,omitempty"`
	// MajorityError is the percentage of wrong rows if every row is predicted as the class with the most training rows.
	MajorityError *float64 `json:"majority_error,omitempty"`
	// Precision lists by class the fraction of the rows predicted as the class that belong to it; 0 if there are none.
	Precision []float64 `json:"precision,omitempty"`
	// Recall lists by class the fraction of the rows of the class that are predicted as it; 0 if there are none.
	Recall []float64 `json:"recall,omitempty"`
	F1     []float64 `json:"f1,omitempty"` // by class: harmonic mean of precision and recall
	// Decided measures the threshold of the version, if it has one. All other metrics except auc and average_precision use the most
	// probable class.
	Decided *Decided `json:"decided,omitempty"`
}

// Decided has the metrics at a threshold on the probability of the second of two classes: precision, recall and F1 are those of this class.
type Decided struct {
	Threshold     float64  `json:"threshold"`      // minimum probability for predicting the class
	Confusion     Decision `json:"confusion"`      // Σw of the rows by true class, then by predicted class
	Error         float64  `json:"error"`          // percentage of wrong rows
	BalancedError float64  `json:"balanced_error"` // percentage of wrong rows of a class, averaged over the classes that have rows
	Precision     float64  `json:"precision"`      // fraction of the rows predicted as the class that belong to it; 0 if there are none
	Recall        float64  `json:"recall"`         // fraction of the rows of the class that are predicted as it; 0 if there are none
	F1            float64  `json:"f1"`             // harmonic mean of precision and recall
}

// Decided returns the metrics at the threshold that made the decision; nil if there are no rows.
func (d Decision) Decided(threshold float64) *Decided {
	if d.Weight() == 0 {
		return nil
	}
	r := &Decided{Threshold: threshold, Confusion: d, Error: 100 * (d[0][1] + d[1][0]) / d.Weight(),
		Precision: Ratio(d[1][1], d[0][1]+d[1][1]), Recall: Ratio(d[1][1], d[1][0]+d[1][1]), F1: d.F1()}
	var recalls, present float64
	for class, given := range d {
		if of := given[0] + given[1]; of > 0 {
			recalls, present = recalls+given[class]/of, present+1
		}
	}
	r.BalancedError = 100 * (1 - recalls/present)
	return r
}

// Decision is Σw of the rows of two classes, by true class, then by predicted class.
type Decision [2][2]float64

// F1 returns the F1 of the second class; 0 if no rows belong to it or are predicted as it.
func (d Decision) F1() float64 { return Ratio(2*d[1][1], 2*d[1][1]+d[0][1]+d[1][0]) }

// Weight returns Σw.
func (d Decision) Weight() float64 { return d[0][0] + d[0][1] + d[1][0] + d[1][1] }

// Distances has the error metrics of a regression target.
type Distances struct {
	RMSE float64 `json:"rmse"` // root mean squared error
	MAE  float64 `json:"mae"`  // mean absolute error
	R2   float64 `json:"r2"`   // 1 − mean squared error / variance of the split's rows
}

// Thresholds are the minimum probabilities for predicting a label in multi-label models: for each metric the best
// threshold on holdout rows. Without such rows it is 1/2.
type Thresholds struct {
	Hamming        float64 `json:"hamming"`         // minimises the Hamming loss
	MicroF1        float64 `json:"micro_f1"`        // maximises micro-F1; predictions use this threshold
	MacroF1        float64 `json:"macro_f1"`        // maximises macro-F1
	SubsetAccuracy float64 `json:"subset_accuracy"` // maximises subset accuracy
}
