package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Values of the key `scale` under `prepare`.
const (
	ScaleNone     = "none"     // raw features as they are
	ScaleStandard = "standard" // each feature divided by its standard deviation
	ScaleUnit     = "unit"     // each row divided by its Euclidean length
)

// Preparation turns raw features into the inputs of the feature maps. It is
// the survey's result; the zero value prepares nothing and panics.
type Preparation struct {
	Unit   bool         // divide each row by its length first
	Center []float32    // d
	Scale  []float32    // d
	Basis  kernel.Dense // d × m; zero: the inputs are the d features
	Spread float64
	Labels *schemas.Labels
}

// NewPreparation reads the survey's result.
func NewPreparation(p schemas.Prepare, t schemas.Tensors[float32]) (*Preparation, error) {
	center, ok := t.Find(schemas.TensorCenter)
	if !ok || len(center.Shape) != 1 || len(center.Data) == 0 {
		return nil, &schemas.ShapeError{Tensor: schemas.TensorCenter, Got: center.Shape, Want: []int{-1}}
	}
	width := len(center.Data)
	scale, err := t.Shaped(schemas.TensorScale, width)
	if err != nil {
		return nil, err
	}
	spread, err := t.Shaped(schemas.TensorSpread, 1)
	if err != nil {
		return nil, err
	}
	labels, ok := t.Find(schemas.TensorLabels)
	if !ok || len(labels.Text) == 0 {
		return nil, &schemas.ShapeError{Tensor: schemas.TensorLabels, Want: []int{-1}}
	}
	if err := schemas.CheckLabels(labels.Text); err != nil {
		return nil, fmt.Errorf("%w: %w", schemas.ErrDamaged, err)
	}
	prepared := &Preparation{
		Unit: p.Scale == ScaleUnit, Center: center.Data, Scale: scale,
		Spread: float64(spread[0]), Labels: schemas.NewLabels(labels.Text),
	}
	if p.PCA > 0 {
		basis, err := t.Shaped(schemas.TensorBasis, width, p.PCA)
		if err != nil {
			return nil, err
		}
		prepared.Basis = kernel.Dense{Rows: width, Cols: p.PCA, Data: basis}
	}
	return prepared, nil
}

// Width is the number of raw features, d.
func (p *Preparation) Width() int { return len(p.Center) }

// Inputs is the number of prepared ones, m.
func (p *Preparation) Inputs() int {
	if p.Basis.Cols > 0 {
		return p.Basis.Cols
	}
	return len(p.Center)
}

// Apply prepares raw rows (n × d, a missing value as NaN), which it overwrites,
// into dst (n × m). Without a basis dst may share raw's memory.
func (p *Preparation) Apply(blas *kernel.BLAS, dst, raw kernel.Dense) {
	if raw.Cols != p.Width() || dst.Cols != p.Inputs() || dst.Rows != raw.Rows {
		panic(fmt.Sprintf("stages: prepare %d × %d into %d × %d by %d to %d", raw.Rows, raw.Cols, dst.Rows, dst.Cols, p.Width(), p.Inputs()))
	}
	if p.Unit {
		UnitRows(raw)
	}
	kernel.Standardize(raw, p.Center, p.Scale) // a missing value is the mean
	if p.Basis.Cols > 0 {
		blas.Mul(dst, raw, p.Basis, false)
	} else {
		copy(dst.Data, raw.Data)
	}
}

// UnitRows divides each row by its Euclidean length; rows of zeros stay, and
// missing values (NaN) count as zeros and stay missing.
func UnitRows(x kernel.Dense) {
	for i := range x.Rows {
		row, sum := x.Row(i), 0.0
		for _, v := range row {
			if v == v {
				sum += float64(v) * float64(v)
			}
		}
		if sum == 0 {
			continue
		}
		scale := 1 / math.Sqrt(sum) // of the smallest rows it has no float32
		for j, v := range row {
			row[j] = float32(float64(v) * scale)
		}
	}
}
