package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas"
)

// Values of the key `scale` under `prepare`.
const (
	ScaleNone     = "none"     // raw features as they are
	ScaleStandard = "standard" // each feature divided by its standard deviation
	ScaleUnit     = "unit"     // each row divided by its Euclidean length
)

// Preparation turns raw features into the inputs of the feature maps. It is the result of the survey, and
// [NewPreparation] reads it. It is safe for concurrent use. The zero value has no features: it accepts rows of width 0 only.
type Preparation struct {
	Unit   bool            // divide each row by its Euclidean length first
	Center []float32       // d means, subtracted from the features
	Scale  []float32       // d factors that multiply them then; 0 for a constant feature
	Basis  kernel.Dense    // d × m: the principal components, one a column; zero: the inputs are the d features
	Image  schemas.Image   // shape of the examples; zero: they are no images
	Spread float64         // median squared distance between prepared rows
	Labels *schemas.Labels // the classes of the run
	// ClassWeights are by what the weights of training rows of each class (k) are multiplied; nil: by 1.
	ClassWeights []float32
	// TargetCenter and TargetScale are the mean and the standard deviation of each number that is predicted (k); nil: labels are predicted.
	TargetCenter, TargetScale []float32

	Factors *Factors // of sparse rows, which have neither centre, scale, basis nor spread; nil: the rows are dense

	learnt schemas.Tensors[float32] // what the survey found, for kinds that learn
}

// NewPreparation reads the survey's result. Its error is a *[schemas.ShapeError] for a tensor that is absent or has another
// shape, or wraps [schemas.ErrDamaged] for labels that can't be a set of classes.
func NewPreparation(p schemas.Prepare, t schemas.Tensors[float32]) (*Preparation, error) {
	if factors, sparse := t.Find(schemas.TensorFactors); sparse {
		return newSparse(p, factors, t)
	}
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
	labels, err := labelsOf(t)
	if err != nil {
		return nil, err
	}
	prepared := &Preparation{
		Unit: p.Scale == ScaleUnit, Center: center.Data, Scale: scale,
		Spread: float64(spread[0]), Labels: labels,
	}
	if err := prepared.readTargets(t); err != nil {
		return nil, err
	}
	if err := prepared.readClassWeights(t); err != nil {
		return nil, err
	}
	if image, ok := t.Find(schemas.TensorImage); ok {
		if prepared.Image, err = imageOf(image, width); err != nil {
			return nil, err
		}
	}
	prepared.learnt = t
	if p.PCA > 0 {
		basis, err := t.Shaped(schemas.TensorBasis, width, p.PCA)
		if err != nil {
			return nil, err
		}
		prepared.Basis = kernel.Dense{Rows: width, Cols: p.PCA, Data: basis}
	}
	return prepared, nil
}

// readTargets reads the means and deviations of numbers, if numbers are predicted.
func (p *Preparation) readTargets(t schemas.Tensors[float32]) (err error) {
	if _, there := t.Find(schemas.TensorTargetCenter); !there {
		return nil
	}
	if p.TargetCenter, err = t.Shaped(schemas.TensorTargetCenter, p.Labels.Len()); err != nil {
		return err
	}
	p.TargetScale, err = t.Shaped(schemas.TensorTargetScale, p.Labels.Len())
	return err
}

// readClassWeights reads the weights of classes, if there are any.
func (p *Preparation) readClassWeights(t schemas.Tensors[float32]) (err error) {
	if _, there := t.Find(schemas.TensorClassWeight); there {
		p.ClassWeights, err = t.Shaped(schemas.TensorClassWeight, p.Labels.Len())
	}
	return err
}

// newSparse reads the survey's result of sparse rows.
func newSparse(p schemas.Prepare, t schemas.Tensor[float32], all schemas.Tensors[float32]) (*Preparation, error) {
	labels, err := labelsOf(all)
	if err != nil {
		return nil, err
	}
	factors, err := newFactors(p, t.Data)
	if err != nil {
		return nil, err
	}
	prepared := &Preparation{Factors: factors, Labels: labels}
	if err := prepared.readTargets(all); err != nil {
		return nil, err
	}
	return prepared, prepared.readClassWeights(all)
}

// labelsOf reads the classes.
func labelsOf(t schemas.Tensors[float32]) (*schemas.Labels, error) {
	labels, ok := t.Find(schemas.TensorLabels)
	if !ok || len(labels.Text) == 0 {
		return nil, &schemas.ShapeError{Tensor: schemas.TensorLabels, Want: []int{-1}}
	}
	if err := schemas.CheckLabels(labels.Text); err != nil {
		return nil, fmt.Errorf("read labels of the survey: %w: %w", schemas.ErrDamaged, err)
	}
	return schemas.NewLabels(labels.Text), nil
}

// imageOf reads the shape of images of that many features.
func imageOf(t schemas.Tensor[float32], features int) (image schemas.Image, err error) {
	if len(t.Data) != len(image) {
		return image, &schemas.ShapeError{Tensor: schemas.TensorImage, Got: t.Shape, Want: []int{len(image)}}
	}
	for i, v := range t.Data {
		if !(v >= 1 && v <= float32(features)) {
			return image, fmt.Errorf("%w: images of %v for %d features", schemas.ErrDamaged, t.Data, features)
		}
		image[i] = int(v)
	}
	if image.Size() != features {
		return image, fmt.Errorf("%w: images of %v for %d features", schemas.ErrDamaged, image, features)
	}
	return image, nil
}

// NewInputs returns a preparation that can be applied, but has neither spread nor labels: the survey prepares its sample by it
// to find the spread. center and scale have d values; basis is d × p.PCA, row-major, or nil if p.PCA is 0.
func NewInputs(p schemas.Prepare, center, scale, basis []float32) *Preparation {
	prepared := &Preparation{Unit: p.Scale == ScaleUnit, Center: center, Scale: scale}
	if p.PCA > 0 {
		prepared.Basis = kernel.Dense{Rows: len(center), Cols: p.PCA, Data: basis}
	}
	return prepared
}

// Width returns d, the number of raw features.
func (p *Preparation) Width() int {
	if p.Factors != nil {
		return len(p.Factors.factors)
	}
	return len(p.Center)
}

// Inputs returns m, the number of inputs: of components where there is a basis, of columns that are not left out where rows are sparse, else
// d.
func (p *Preparation) Inputs() int {
	if p.Factors != nil {
		return p.Factors.kept
	}
	if p.Basis.Cols > 0 {
		return p.Basis.Cols
	}
	return len(p.Center)
}

// Apply writes the inputs of raw rows (n × d; NaN for a missing value) into dst (n × m), and overwrites raw. A missing value
// becomes the mean of its feature. Without a basis, dst may be raw. Other shapes panic. The inputs of a row that overflow become 0: Apply
// returns these rows.
func (p *Preparation) Apply(blas *kernel.BLAS, dst, raw kernel.Dense) (overflowed []int) {
	if raw.Cols != p.Width() || dst.Cols != p.Inputs() || dst.Rows != raw.Rows {
		panic(fmt.Sprintf("stages: Apply: raw is %d × %d and dst %d × %d, want %d and %d columns", raw.Rows, raw.Cols, dst.Rows, dst.Cols, p.Width(), p.Inputs()))
	}
	if p.Unit {
		unitRows(raw)
	}
	kernel.Standardize(raw, p.Center, p.Scale) // 0 for a missing value, which is the mean of centred features
	if p.Basis.Cols > 0 {
		blas.Mul(dst, raw, p.Basis, false)
	} else {
		copy(dst.Data, raw.Data)
	}
	return clearLong(dst, dst.Cols)
}

// Standardize writes the numbers of rows (n × k) into dst (n × k) as stages predict them: less their means, by their standard deviations.
func (p *Preparation) Standardize(dst kernel.Dense, targets []float64) {
	for i, y := range targets {
		c := i % dst.Cols
		dst.Data[i] = float32((y - float64(p.TargetCenter[c])) / float64(p.TargetScale[c]))
	}
}

// Restore turns predictions of standardised numbers (n × k) into those of the numbers, in place. Other predictions stay as they are.
func (p *Preparation) Restore(predictions kernel.Dense) {
	if p.TargetCenter == nil {
		return
	}
	for i, v := range predictions.Data {
		c := i % predictions.Cols
		predictions.Data[i] = float32(float64(v)*float64(p.TargetScale[c]) + float64(p.TargetCenter[c]))
	}
}

// Add is [Preparation.Apply] in a graph: it adds the inputs of raw rows.
func (p *Preparation) Add(g *onnx.Graph, raw onnx.Value) onnx.Value {
	missing, zero := g.Node("IsNaN", raw), g.Number(0)
	x := g.Node("Where", missing, zero, raw)
	if p.Unit {
		x = g.Unit(x)
	}
	x = g.Node("Mul", g.Node("Sub", x, g.Row(p.Center)), g.Row(p.Scale))
	x = g.Node("Where", missing, zero, x)
	if p.Basis.Cols > 0 {
		x = g.Node("MatMul", x, g.Floats(p.Basis.Data, p.Basis.Rows, p.Basis.Cols))
	}
	return x
}

// unitRows divides each row of x by its Euclidean length. Rows of zeros stay as they are. Missing values (NaN) add nothing to
// the length and stay missing.
func unitRows(x kernel.Dense) {
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
		scale := 1 / math.Sqrt(sum) // float64: for rows of subnormal numbers it exceeds the range of float32
		for j, v := range row {
			row[j] = float32(float64(v) * scale)
		}
	}
}

// ScaleRows does what a preparation does to each raw row by itself, before anything that the survey finds is used: it divides
// the row by its length if the preparation says so. The survey takes its moments of rows that are scaled so.
func ScaleRows(p schemas.Prepare, x kernel.Dense) {
	if p.Scale == ScaleUnit {
		unitRows(x)
	}
}
