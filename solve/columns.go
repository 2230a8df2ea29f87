package solve

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// NoColumnsError says that no column of sparse rows is left.
type NoColumnsError struct{ MinRows int }

func (e *NoColumnsError) Error() string {
	if e.MinRows > 1 {
		return fmt.Sprintf("prepare.min_rows: no feature is in %d training rows or more: set a smaller number", e.MinRows)
	}
	return "no training row has a feature that is not 0"
}

// SurveyColumns finds the preparation of sparse rows: the factor of each column, and the classes. counts are of the training rows, of which
// there are so many, in the order of the columns. classWeights are those of [ClassWeights]. A column in fewer than p.MinRows rows is left out. The factor of another is
// (log((rows+1)/(its rows+1))+1)^p.IDF. Errors are *LabelsError, NoWeightError and *NoColumnsError.
func SurveyColumns(p schemas.Prepare, counts []schemas.ColumnRows, rows int64, labels []string, classWeights []float32) (schemas.Tensors[float32], error) {
	if err := checkLabels(labels); err != nil {
		return nil, err
	}
	if rows <= 0 {
		return nil, NoWeightError{}
	}
	var factors []float32
	for _, n := range counts {
		if int(n.Rows) < p.MinRows {
			continue
		}
		for len(factors) <= int(n.Column) {
			factors = append(factors, 0)
		}
		factors[n.Column] = float32(math.Pow(math.Log(float64(rows+1)/float64(n.Rows+1))+1, p.IDF))
	}
	if len(factors) == 0 {
		return nil, &NoColumnsError{p.MinRows}
	}
	t := schemas.Tensors[float32]{schemas.Vector(schemas.TensorFactors, factors)}
	if classWeights != nil {
		t = append(t, schemas.Vector(schemas.TensorClassWeight, classWeights))
	}
	return append(t, schemas.Words[float32](schemas.TensorLabels, labels)), nil
}
