package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Values of the key `scale` under `prepare`.
const (
	ScaleAuto     = "auto"     // one of the other values, chosen from the examples and the stages; plans never contain it
	ScaleNone     = "none"     // raw features as they are
	ScaleStandard = "standard" // each feature divided by its standard deviation
	ScaleUnit     = "unit"     // each row divided by its Euclidean length
	ScaleRanks    = "ranks"    // each number becomes the normal score of its rank
)

// Preparation turns raw features into the inputs of the feature maps. It is the result of the survey; [NewPreparation] reads it.
// It is safe for concurrent use. The zero value has no features: it accepts rows of width 0 only.
type Preparation struct {
	Unit   bool             // divide each row by its Euclidean length first
	Center []float32        // d means, subtracted from the features; of sparse rows those of the leading numbers, if there are any
	Scale  []float32        // factors of the features, applied after centring; 0 for a constant feature
	Basis  kernel.Dense     // d × m: the principal components, one per column; zero: the inputs are the d features
	Image  examples.Image   // shape of the examples; zero: the examples are not images
	Spread float64          // median squared distance between prepared rows
	Labels *examples.Labels // the classes of the run
	// ClassWeights are the weight factors of the training rows of each class (k); nil: 1.
	ClassWeights []float32
	// TargetCenter and TargetScale are the mean and the standard deviation of each numeric target (k); nil: labels are
	// predicted.
	TargetCenter []float64
	TargetScale  []float32

	Ranks *Ranks // nil: numbers are not replaced by ranks

	Coder *Coder // of raw rows for trees; nil: the run has none

	Factors *Factors // of sparse rows, which have neither basis nor spread; nil: the rows are dense

	// Learnt is the survey's result, for kinds of features that learn from its sample.
	Learnt wire.Tensors[float32]
}

// NewPreparation reads the survey's result. Its error is a *[wire.ShapeError] for an absent tensor or a wrong shape, or wraps
// [wire.ErrDamaged] for labels that can't be a set of classes.
func NewPreparation(p schemas.Prepare, t wire.Tensors[float32]) (*Preparation, error) {
	factors, sparse, err := statistics.FactorsOf(t)
	if err != nil {
		return nil, err
	}
	prepared := &Preparation{}
	if prepared.Center, err = t.Optional(statistics.TensorCenter, -1); err == nil && prepared.Center != nil {
		prepared.Scale, err = t.Shaped(statistics.TensorScale, len(prepared.Center))
	}
	if err == nil {
		err = prepared.readClasses(t)
	}
	width := len(prepared.Center)
	switch {
	case err != nil:
		return nil, err
	case sparse:
		prepared.Factors, err = newFactors(p, factors, width)
		return prepared, err
	case width == 0:
		return nil, &wire.ShapeError{Tensor: statistics.TensorCenter, Want: []int{-1}}
	}
	spread, err := t.Shaped(statistics.TensorSpread, 1)
	if err != nil {
		return nil, err
	}
	prepared.Unit, prepared.Spread, prepared.Learnt = p.Scale == ScaleUnit, float64(spread[0]), t
	if prepared.Coder, err = readCoder(t, width); err != nil {
		return nil, err
	}
	if prepared.Ranks, err = readRanks(t, width); err != nil {
		return nil, err
	}
	if prepared.Image, err = readImage(t, width); err != nil {
		return nil, err
	}
	if p.PCA > 0 {
		basis, err := t.Shaped(statistics.TensorBasis, width, p.PCA)
		if err != nil {
			return nil, err
		}
		prepared.Basis = kernel.Dense{Rows: width, Cols: p.PCA, Data: basis}
	}
	return prepared, nil
}

// readClasses reads the classes and their weights, or the names of numeric targets and their means and deviations.
func (p *Preparation) readClasses(t wire.Tensors[float32]) (err error) {
	labels, ok := t.Find(statistics.TensorLabels)
	if !ok || len(labels.Text) == 0 {
		return &wire.ShapeError{Tensor: statistics.TensorLabels, Want: []int{-1}}
	}
	if err := examples.CheckLabels(labels.Text); err != nil {
		return fmt.Errorf("read labels of the survey: %w: %w", wire.ErrDamaged, err)
	}
	p.Labels = examples.NewLabels(labels.Text)
	k := p.Labels.Len()
	if p.ClassWeights, err = t.Optional(statistics.TensorClassWeight, k); err != nil {
		return err
	}
	center, err := t.Optional(statistics.TensorTargetCenter, k)
	if center == nil {
		return err
	}
	rest, err := t.Optional(statistics.TensorTargetRest, k)
	if err != nil {
		return err
	}
	p.TargetCenter = make([]float64, k)
	for c, v := range center {
		if p.TargetCenter[c] = float64(v); rest != nil {
			p.TargetCenter[c] += float64(rest[c])
		}
	}
	p.TargetScale, err = t.Shaped(statistics.TensorTargetScale, k)
	return err
}

// ClassWeight returns the weight factor of a class; 1 for rows of no class.
func (p *Preparation) ClassWeight(class int32) float64 {
	if class < 0 || p.ClassWeights == nil {
		return 1
	}
	return float64(p.ClassWeights[class])
}

// readImage reads the shape of images with the given number of features; zero if there is none.
func readImage(t wire.Tensors[float32], features int) (image examples.Image, err error) {
	shape, err := t.Optional(statistics.TensorImage, len(image))
	if shape == nil {
		return image, err
	}
	for i, v := range shape {
		image[i] = int(max(0, min(v, float32(features))))
	}
	if image.Size() != features {
		return image, fmt.Errorf("%w: images of %v for %d features", wire.ErrDamaged, shape, features)
	}
	return image, nil
}

// Sample prepares raw rows of the survey's sample (n × d), which it overwrites, and returns them (n × m), so that the survey can find their
// spread. It prepares row by row: in a product of several rows a BLAS may round equal rows differently, and the spread must recognize equal
// rows.
func (p *Preparation) Sample(blas *kernel.BLAS, sample kernel.Dense) kernel.Dense {
	rows := kernel.NewDense(sample.Rows, p.Inputs())
	for i := range sample.Rows {
		p.Apply(blas, rows.Slice(i, i+1), sample.Slice(i, i+1))
	}
	return rows
}

// Width returns d, the number of raw features.
func (p *Preparation) Width() int {
	if p.Factors != nil {
		return p.Factors.width
	}
	return len(p.Center)
}

// TableWidth returns the number of raw features from columns of a table: all of dense rows, and the leading ones of
// mixed rows.
func (p *Preparation) TableWidth() int { return len(p.Center) }

// Inputs returns m, the number of inputs: kept columns of sparse rows, components of a basis, or d and, with ranks, the
// indicators of missing values.
func (p *Preparation) Inputs() int {
	if p.Factors != nil {
		return p.Factors.kept
	}
	if p.Basis.Cols > 0 {
		return p.Basis.Cols
	}
	if p.Ranks != nil {
		return len(p.Center) + len(p.Ranks.missing)
	}
	return len(p.Center)
}

// Feature returns the raw feature of an input of dense rows without a basis.
func (p *Preparation) Feature(input int) int {
	if input < len(p.Center) {
		return input
	}
	return p.Ranks.missing[input-len(p.Center)].feature
}

// Apply writes the inputs of raw rows (n × d; NaN for a missing value) into dst (n × m), and overwrites raw. A missing
// value becomes the mean of its feature. Without a basis or ranks, dst may be raw. It panics for other shapes. The
// inputs of a row that overflow become 0: Apply returns these rows.
func (p *Preparation) Apply(blas *kernel.BLAS, dst, raw kernel.Dense) (overflowed []int) {
	if raw.Cols != p.Width() || dst.Cols != p.Inputs() || dst.Rows != raw.Rows {
		panic(fmt.Sprintf("prepare: Apply: raw is %d × %d and dst %d × %d, want %d and %d columns", raw.Rows, raw.Cols, dst.Rows,
			dst.Cols, p.Width(), p.Inputs()))
	}
	if p.Unit {
		kernel.UnitRows(raw)
	}
	if p.Ranks != nil {
		p.Ranks.apply(dst, raw, p.Center, p.Scale)
		return clearLong(dst, dst.Cols)
	}
	kernel.Standardize(raw, p.Center, p.Scale) // 0 for a missing value, which is the mean of centred features
	if p.Basis.Cols > 0 {
		blas.Mul(dst, raw, p.Basis, false)
	} else {
		copy(dst.Data, raw.Data)
	}
	return clearLong(dst, dst.Cols)
}

// Standardize writes the targets of rows (n × k) into dst (n × k) as stages predict them: minus their means, divided by
// their standard deviations.
func (p *Preparation) Standardize(dst kernel.Dense, targets []float64) {
	for i, y := range targets {
		c := i % dst.Cols
		dst.Data[i] = float32((y - p.TargetCenter[c]) / float64(p.TargetScale[c]))
	}
}

// Restore converts predictions of standardised targets (n × k) to the original units, in dst (n × k): in float64, as
// float32 has steps of 128 for seconds since 1970. It panics if labels are predicted.
func (p *Preparation) Restore(dst []float64, predictions kernel.Dense) {
	for i, v := range predictions.Data {
		c := i % predictions.Cols
		dst[i] = float64(v)*float64(p.TargetScale[c]) + p.TargetCenter[c]
	}
}

// AddRestore is [Preparation.Restore] in a graph.
func (p *Preparation) AddRestore(g *onnx.Graph, predictions onnx.Value) onnx.Value {
	scale := make([]float64, len(p.TargetScale))
	for c, v := range p.TargetScale {
		scale[c] = float64(v)
	}
	return g.Node("Add", g.Node("Mul", g.Double(predictions), g.Doubles(scale)), g.Doubles(p.TargetCenter))
}

// Add is [Preparation.Apply] in a graph: it adds the inputs of raw rows.
func (p *Preparation) Add(g *onnx.Graph, raw onnx.Value) onnx.Value {
	missing, zero := g.Node("IsNaN", raw), g.Number(0)
	x := g.Node("Where", missing, zero, raw)
	if p.Unit {
		x = g.Unit(x)
	}
	var lacks onnx.Value
	if p.Ranks != nil {
		x, lacks = p.Ranks.add(g, x, raw, len(p.Center))
	}
	x = g.Node("Mul", g.Node("Sub", x, g.Row(p.Center)), g.Row(p.Scale))
	x = g.Node("Where", missing, zero, x)
	if p.Basis.Cols > 0 {
		x = g.Node("MatMul", x, g.Floats(p.Basis.Data, p.Basis.Rows, p.Basis.Cols))
	}
	if lacks != "" {
		x = g.Along(1, "Concat", x, lacks)
	}
	return x
}

// ScaleRows applies the part of a preparation that precedes the survey's results: it divides each raw row by its length
// if configured. The survey takes its moments of rows scaled in this way.
func ScaleRows(p schemas.Prepare, x kernel.Dense) {
	if p.Scale == ScaleUnit {
		kernel.UnitRows(x)
	}
}

// DenseError means that a setting requires dense rows, but the examples are sparse.
type DenseError struct {
	What string // the key and its value
	Want string // the supported value for sparse rows
}

// Error says what to set.
func (e *DenseError) Error() string {
	return fmt.Sprintf("%s: the examples are sparse, and this needs dense rows: set %s; or for LIBSVM files examples.rows to dense",
		e.What, e.Want)
}

// SparseError means that a setting requires sparse rows, but the examples are dense.
type SparseError struct{ What string } // the key, and its value if other values are for dense rows

// Error names the key.
func (e *SparseError) Error() string {
	return fmt.Sprintf("%s: the examples are dense, and this is for sparse rows, such as those of LIBSVM files: remove it", e.What)
}

// CheckRows returns a *[DenseError] or a *[SparseError] if the preparation does not support sparse, or dense, examples.
func CheckRows(p schemas.Prepare, sparse bool) error {
	switch {
	case sparse && p.PCA > 0:
		return &DenseError{fmt.Sprintf("prepare.pca: %d", p.PCA), "it to 0"}
	case sparse && (p.Scale == ScaleStandard || p.Scale == ScaleRanks):
		return &DenseError{"prepare.scale: " + p.Scale, "it to " + ScaleNone + " or " + ScaleUnit}
	case !sparse && p.MinRows > 1:
		return &SparseError{"prepare.min_rows"}
	case !sparse && p.Values != "" && p.Values != ValuesNone:
		return &SparseError{"prepare.values"}
	case !sparse && p.IDF != 0:
		return &SparseError{"prepare.idf"}
	}
	return nil
}

// maxLength bounds the length of a row. A Gram matrix is summed in single precision for some thousands of rows, up to
// 2¹²⁸: a million squares of this length fit, so one row can't spoil the sum of the others.
const maxLength = 1 << 53

// The longest features in the survey's moments. They are centred later, by a mean of up to the same length.
const (
	maxCentred = maxLength / 2
	maxScaled  = 1 << 63 // features divided by their standard deviation may be longer: times since 1970 in nanoseconds are 2⁶¹
)

// Overflows reports whether a row of raw features, dense or the values of a sparse one, is too long for a preparation.
// A missing value (NaN) adds nothing to the length.
func Overflows(p schemas.Prepare, features []float32) bool {
	limit := float64(maxCentred)
	switch {
	case p.Scale == ScaleUnit, p.Values != "" && p.Values != ValuesNone:
		limit = math.MaxFloat32 * math.Sqrt(examples.MaxColumns) // any finite row
	case p.Scale == ScaleStandard && p.PCA == 0: // the Gram matrix is that of unscaled features
		limit = maxScaled
	}
	if !isLonger(features, limit) {
		return false
	}
	square := 0.0
	for _, v := range features {
		if v == v {
			square += float64(v) * float64(v)
		}
	}
	return !(square <= limit*limit)
}

// isLonger reports whether a row is longer than a limit, or is not finite.
func isLonger(row []float32, limit float64) bool {
	return len(row) > 0 && !(float64(kernel.SquaredLength(row)) <= limit*limit)
}

// clearLong sets the first columns of rows of x that are too long there to 0, and returns these rows.
func clearLong(x kernel.Dense, columns int) (rows []int) {
	for i := range x.Rows {
		if row := x.Row(i)[:columns]; isLonger(row, maxLength) {
			clear(row)
			rows = append(rows, i)
		}
	}
	return rows
}
