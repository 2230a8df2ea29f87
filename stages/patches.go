package stages

import (
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Patches is the kind of pooled filter responses of images (Coates, Ng and Lee 2011). A patch is patch × patch pixels
// with all channels. Its mean is subtracted, and it is divided by its deviation, whitened, and scaled to length √q,
// where q is its number of values. Its response z to a filter of length 1 is an inner product, and gives max(0, z −
// rectify) and max(0, −z − rectify). Each is summed over the cells of a grid × grid partition of the positions, which
// may overlap. The sums, or the square roots of 1 + them, are centred and scaled by their moments in the survey's
// sample.
const Patches = "patches"

// Purposes of the draws of patches.
const (
	drawPatches = 6 // patches of the sample for whitening and filters: 3i the row, 3i+1 and 3i+2 the position
	drawFilters = 7 // patches that become filters, or the components of directions
)

const (
	sampledPatches = 50_000
	// maxFilters bounds the filters so that 2 · filters · grid² features and the products of patches and filters stay
	// small.
	maxFilters = maxSize / 2
	maxPatch   = 32
	maxGrid    = 32
	// roundsOfMeans is the number of k-means iterations. Coates and Ng (2012) find ten sufficient.
	roundsOfMeans = 10
	// rareResponse limits the scale of responses that hardly ever differ from their mean: a deviation counts as at
	// least this fraction of the root mean square of all deviations.
	rareResponse = 0.05
)

func patches() Kind {
	return Kind{
		name:    Patches,
		meaning: "responses of patches of images to filters, pooled over a grid",
		keys: []option.Key{
			{Name: "patch", Rule: option.Whole(1, maxPatch), Meaning: "height and width of a patch, in pixels; 9 if not given"},
			{Name: "filters", Rule: option.Range(1, maxFilters, wantFilters()), Meaning: "number of filters; the block has 2 · filters · grid² " +
				"features, at most 32768; 128 if not given"},
			{Name: "grid", Rule: option.Whole(1, maxGrid), Meaning: "the responses are summed over grid × grid cells; 4 if not given"},
			{Name: "overlap", Rule: option.Whole(0, maxPatch), Meaning: "positions by which a cell extends into its neighbours, from 0 to 32; 0 " +
				"if not given"},
			{Name: "root", Meaning: "take the square root of 1 + each sum, which gives few responses of a cell more weight and many " +
				"responses less"},
			{Name: "rectify", Rule: option.Range(0, math.MaxFloat64, "a number ≥ 0"), Meaning: "threshold subtracted from the absolute value " +
				"of a response, with a result of at least 0; 0.5 if not given"},
			{Name: "whiten", Rule: positive(), Meaning: "constant added to the variances of patches before whitening; small: fine detail " +
				"counts more; 0.3 if not given"},
			{Name: "contrast", Rule: positive(), Meaning: "constant added to the variance of a patch before it is divided by its deviation, " +
				"relative to the mean variance of patches; large: faint patches count less; 0.1 if not given"},
			{Name: "mirror", Meaning: "add the responses of the mirrored image, so that an image and its mirror image have the same features"},
			{Name: "source", Rule: option.OneOf(sources()...), Meaning: "origin of the filters: `data` (patches of the survey's sample), " +
				"`gaussian` (random directions) or `kmeans` (centroids of patches); `data` if not given"},
		},
		fits: func(f schemas.Features) []option.Problem {
			if f.Grid > maxGrid || f.Filters > maxFilters || patchColumns(f) <= maxSize {
				return nil
			}
			return []option.Problem{{Key: "filters", Value: fmt.Sprint(f.Filters), Want: wantFilters()}}
		},
		Suits:  []Examples{Images},
		pixels: true,
		defaults: func(f *schemas.Features) {
			f.Size, f.Patch, f.Filters, f.Grid, f.Rectify, f.Whiten, f.Contrast, f.Source = 0, 9, 128, 4, 0.5, 0.3, 0.1, SourceData
		},
		describe: func(f schemas.Features) string {
			text := fmt.Sprintf("%d %s %d×%[3]d grid %d", f.Filters, f.Kind, f.Patch, f.Grid)
			if f.Mirror {
				text += " mirrored"
			}
			return text
		},
		blockSize: func(f schemas.Features, _ int) (int, error) { return patchColumns(f), nil },
		learn:     learnPatches,
		read: func(m *Map, prepared *Preparation) (func() drawn, error) {
			p, err := readPatches(m, prepared)
			if err != nil {
				return nil, err
			}
			return p.drawn, nil
		},
	}
}

// wantFilters says what the key `filters` must be.
func wantFilters() string {
	return fmt.Sprintf("a whole number ≥ 1, so that 2 · filters · grid² is at most %d", maxSize)
}

// patchColumns returns the number of features of a block: for each cell of the grid, those of positive responses and
// then those of negative ones.
func patchColumns(f schemas.Features) int { return 2 * f.Filters * f.Grid * f.Grid }

// filterBank is the features of a stage of patches.
type filterBank struct {
	features schemas.Features
	image    examples.Image
	center   []float32 // subtracted from pixels by the preparation
	divided  []float32 // divisors of pixels in the preparation; 0 for a constant pixel

	across, down   axis // from the left and from the top
	tiles          []tile
	values         int // q, of a patch
	whitening      []float32
	offset         []float32    // the whitened mean of patches
	filters        kernel.Dense // q × f
	contrast       float64      // added to the variance of a patch
	mean, factor   []float32
	sumOfThreshold []float32 // per cell: positions · rectify

	// Factors of patches: the first even values of a whitened patch, and of a filter, are sums, and the others
	// differences of swapped values. If mirrored patches are pooled separately, or not at all, the values are those of
	// the patch.
	places    []int // see placesOfMirrored
	even      int
	centred   [2]kernel.Dense // the whitening of the even values, and of the others, which also subtracts the mean of a patch
	shift     []float32       // the offset
	responses kernel.Filters
}

// newFilterBank returns a bank without filters. The error says why the images have no such patches.
func newFilterBank(f schemas.Features, prepared *Preparation) (*filterBank, error) {
	image := prepared.Image
	if image == (examples.Image{}) {
		return nil, ErrNoImages
	}
	b := &filterBank{features: f, image: image, center: prepared.Center, values: f.Patch * f.Patch * image.Channels()}
	b.divided = make([]float32, len(b.center))
	for j, factor := range prepared.Scale {
		if factor != 0 {
			b.divided[j] = 1 / factor
		}
	}
	rows, cols := image.Height()-f.Patch+1, image.Width()-f.Patch+1
	if min(rows, cols) < f.Grid {
		return nil, fmt.Errorf("patches of %d × %[1]d pixels have %d × %d positions in images of %d × %d, fewer than the %d × "+
			"%[6]d cells of the grid: choose a smaller patch or grid",
			f.Patch, max(rows, 0), max(cols, 0), image.Height(), image.Width(), f.Grid)
	}
	b.down, b.across = newAxis(rows, f.Grid, f.Overlap), newAxis(cols, f.Grid, f.Overlap)
	b.tiles, b.places = tilesOf(b.down, b.across), placesOfMirrored(f.Patch, image.Channels())
	return b, nil
}

// whitenBy sets the whitening. If the whitening of a version is not invariant to mirroring, mirrored images are pooled
// separately.
func (b *filterBank) whitenBy(whitening, offset []float32, contrast float64) {
	q := b.values
	b.whitening, b.offset, b.contrast, b.shift, b.even = whitening, offset, contrast, slices.Clone(offset), q
	if b.features.Mirror && isAsMirrored(whitening, placesOfProducts(b.places)) && isAsMirrored(offset, b.places) {
		b.even = evenValues(b.places)
		sumsAndDifferences(b.shift, b.places)
	}
	centred := kernel.NewDense(q, q)
	for j := range q {
		sum := 0.0
		for i := range q {
			sum += float64(whitening[i*q+j])
		}
		for i := range q {
			centred.Data[i*q+j] = float32(float64(whitening[i*q+j]) - sum/float64(q))
		}
	}
	if b.even < q {
		centred = turned(centred, b.places)
	}
	for i, part := range [][2]int{{0, b.even}, {b.even, q}} {
		block := kernel.NewDense(part[1]-part[0], part[1]-part[0]) // sums do not change differences, up to rounding
		for j := range block.Rows {
			copy(block.Row(j), centred.Row(part[0] + j)[part[0]:])
		}
		b.centred[i] = block
	}
}

// filterBy sets the filters (q × f), after the whitening.
func (b *filterBank) filterBy(filters kernel.Dense) {
	b.filters = filters
	if b.even < b.values {
		rows := transpose(filters)
		for i := range rows.Rows {
			sumsAndDifferences(rows.Row(i), b.places)
		}
		filters = transpose(rows)
	}
	b.responses = kernel.NewFilters(filters, b.even)
	segments := make([]float32, b.down.segments()*b.across.segments())
	for _, y := range b.down.segment {
		for _, x := range b.across.segment {
			segments[y*b.across.segments()+x] += float32(b.features.Rectify)
		}
	}
	b.sumOfThreshold = make([]float32, b.features.Grid*b.features.Grid)
	b.sumCells(b.sumOfThreshold, segments)
	if b.features.Mirror {
		for c := range b.sumOfThreshold {
			b.sumOfThreshold[c] *= 2
		}
	}
}

// moments are the mean and the reciprocal deviation of patches at the positions of an image, from summed-area tables:
// four additions for a patch of any size.
type moments struct {
	stride       int
	sums, square []float64 // of all pixels above and to the left
}

// measure sums the pixels of an image. The sums are float64: exact for whole numbers.
func (m *moments) measure(pixels []float32, image examples.Image) {
	m.stride = image.Width() + 1
	n := (image.Height() + 1) * m.stride
	if len(m.sums) != n {
		m.sums, m.square = make([]float64, n), make([]float64, n)
	}
	channels, at := image.Channels(), 0
	for y := range image.Height() {
		sum, square := 0.0, 0.0
		for x := range image.Width() {
			for _, v := range pixels[at : at+channels] {
				sum += float64(v)
				square += float64(v) * float64(v)
			}
			at += channels
			i := (y+1)*m.stride + x + 1
			m.sums[i], m.square[i] = m.sums[i-m.stride]+sum, m.square[i-m.stride]+square
		}
	}
}

// variance returns the variance of the q values of a patch, given its size and its upper left pixel (y, x).
func (m *moments) variance(y, x, size, q int) float64 {
	top, bottom := y*m.stride+x, (y+size)*m.stride+x
	sum := m.sums[bottom+size] - m.sums[bottom] - m.sums[top+size] + m.sums[top]
	square := m.square[bottom+size] - m.square[bottom] - m.square[top+size] + m.square[top]
	return max(square-sum*sum/float64(q), 0) / float64(max(q-1, 1))
}

// patch copies the patch at (y, x) of an image.
func (b *filterBank) patch(dst, pixels []float32, y, x int) {
	n, stride := b.features.Patch*b.image.Channels(), b.image.Width()*b.image.Channels()
	from := y*stride + x*b.image.Channels()
	for len(dst) > 0 {
		copy(dst[:n], pixels[from:from+n])
		dst, from = dst[n:], from+stride
	}
}

// pixels restores the pixels of prepared inputs.
func (b *filterBank) pixels(dst, inputs []float32) {
	for j, v := range inputs {
		dst[j] = v*b.divided[j] + b.center[j]
	}
}

// pool writes the sums of rectified responses of the rows of inputs into the first columns of dst. Only the patches of
// one tile of positions are in memory at a time.
func (b *filterBank) pool(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, inputs kernel.Dense) {
	q, rows := b.values, 0
	for _, t := range b.tiles {
		rows = max(rows, t.rows)
	}
	columns, segments := patchColumns(b.features), b.down.segments()*b.across.segments()*2*b.features.Filters
	folded := b.image.Height() * b.across.positions() * b.features.Patch * b.image.Channels()
	scratch.Reshape(1, b.image.Size()+folded+rows*(2*q+1)+b.responses.Scratch(rows)+segments)
	free := scratch.Data
	take := func(n int) []float32 {
		part := free[:n:n]
		free = free[n:]
		return part
	}
	pixels, pooled, products := take(b.image.Size()), take(segments), take(b.responses.Scratch(rows))
	raw, white, factors := take(rows*q), take(rows*q), take(rows)
	windows := b.windows(pixels, take(folded))
	var sums moments
	for i := range inputs.Rows {
		clear(pooled)
		b.pixels(pixels, inputs.Row(i))
		for side := range b.sides() {
			if side > 0 {
				Variant{mirrored: true}.Of(pixels, slices.Clone(pixels), b.image)
			}
			sums.measure(pixels, b.image)
			if len(windows) > 1 {
				b.fold(windows[0].from, windows[1].from, pixels)
			}
			for _, t := range b.tiles {
				whitened := kernel.Dense{Rows: t.rows, Cols: q, Data: white[:t.rows*q]}
				for i, w := range windows {
					patches := kernel.Dense{Rows: t.rows, Cols: w.values(), Data: raw[:t.rows*w.values()]}
					w.copy(patches, t)
					blas.MulInto(whitened, i*b.even, patches, b.centred[i])
				}
				b.deviations(factors[:t.rows], t, sums)
				kernel.ScaleRows(whitened, factors[:t.rows], b.shift, float32(math.Sqrt(float64(q))))
				from := 0
				for _, r := range t.regions {
					to := from + r.rows*r.cols
					blas.AddResponses(b.segment(pooled, r.segment), b.segment(pooled, r.mirrored), whitened.Slice(from, to), b.responses,
						float32(b.features.Rectify), products)
					from = to
				}
			}
		}
		out := dst.Row(i)[:columns]
		b.sumCells(out, pooled)
		b.takeThresholds(out)
		if b.features.Root {
			for j, v := range out {
				out[j] = float32(math.Sqrt(float64(1 + v))) // one instruction, which rounds once
			}
		}
	}
}

// windows describes the patches of an image: each has height rows of width values, which begin stride values apart, and
// patches begin step values apart.
type windows struct {
	from                        []float32
	height, width, step, stride int
}

// windows returns the windows of an image, or those of its sums and its differences, which fold writes into folded.
func (b *filterBank) windows(pixels, folded []float32) []windows {
	size, channels, positions := b.features.Patch, b.image.Channels(), b.across.positions()
	if b.even == b.values {
		return []windows{{pixels, size, size * channels, channels, b.image.Width() * channels}}
	}
	sums, differences := (size+1)/2*channels, size/2*channels
	n := b.image.Height() * positions * sums
	return []windows{
		{folded[:n], size, sums, sums, positions * sums},
		{folded[n:], size, differences, differences, positions * differences},
	}
}

// values returns the number of values per patch.
func (w windows) values() int { return w.height * w.width }

// copy copies the patches of a tile.
func (w windows) copy(dst kernel.Dense, t tile) {
	n := 0
	for _, r := range t.regions {
		for y := r.top; y < r.top+r.rows; y++ {
			kernel.CopyWindows(dst.Slice(n, n+r.cols), w.from[y*w.stride+r.left*w.step:], w.height, w.step, w.stride)
			n += r.cols
		}
	}
}

// deviations writes the reciprocal deviations of the patches of a tile.
func (b *filterBank) deviations(factors []float32, t tile, sums moments) {
	n := 0
	for _, r := range t.regions {
		for y := r.top; y < r.top+r.rows; y++ {
			for x := r.left; x < r.left+r.cols; x++ {
				factors[n] = float32(1 / math.Sqrt(sums.variance(y, x, b.features.Patch, b.values)+b.contrast))
				n++
			}
		}
	}
}

// segment returns the sums of a segment: of positive responses, and of negative ones.
func (b *filterBank) segment(sums []float32, segment int) kernel.Dense {
	n := 2 * b.features.Filters
	return kernel.Dense{Rows: 2, Cols: b.features.Filters, Data: sums[segment*n : (segment+1)*n]}
}

// sumCells adds up the sums of the segments of each cell. A sum may have any number of values, the same for segments
// and cells.
func (b *filterBank) sumCells(cells, segments []float32) {
	grid, across := b.features.Grid, b.across.segments()
	n := len(cells) / (grid * grid)
	for y, down := range b.down.cells {
		for x, right := range b.across.cells {
			cell := kernel.Dense{Rows: 1, Cols: n, Data: cells[(y*grid+x)*n : (y*grid+x+1)*n]}
			clear(cell.Data)
			for i := down[0]; i < down[1]; i++ {
				for j := right[0]; j < right[1]; j++ {
					kernel.AddRow(cell, segments[(i*across+j)*n:(i*across+j+1)*n])
				}
			}
		}
	}
}

// sides returns the number of images to pool: the image, and its mirror image if it is pooled separately.
func (b *filterBank) sides() int {
	if b.features.Mirror && b.even == b.values {
		return 2
	}
	return 1
}

// takeThresholds turns sums of max(z, rectify) into sums of max(z − rectify, 0).
func (b *filterBank) takeThresholds(out []float32) {
	each := 2 * b.features.Filters
	for c, sum := range b.sumOfThreshold {
		for j := range out[c*each : (c+1)*each] {
			out[c*each+j] -= sum
		}
	}
}

// readPatches reads the learnt tensors of a map.
func readPatches(m *Map, prepared *Preparation) (*filterBank, error) {
	b, err := newFilterBank(m.features, prepared)
	if err != nil {
		return nil, err
	}
	q, f, columns := b.values, m.features.Filters, patchColumns(m.features)
	var found [6][]float32
	for i, t := range []struct {
		name  string
		shape []int
	}{
		{statistics.TensorWhitening, []int{q, q}}, {statistics.TensorOffset, []int{q}}, {statistics.TensorFilters, []int{q, f}},
		{statistics.TensorContrast, []int{1}}, {statistics.TensorMean, []int{columns}}, {statistics.TensorFactor, []int{columns}},
	} {
		if found[i], err = prepared.Learnt.Shaped(statistics.OfStage(t.name, m.stage), t.shape...); err != nil {
			return nil, err
		}
	}
	b.whitenBy(found[0], found[1], float64(found[3][0]))
	b.filterBy(kernel.Dense{Rows: q, Cols: f, Data: found[2]})
	b.mean, b.factor = found[4], found[5]
	return b, nil
}

func (b *filterBank) drawn() drawn {
	return drawn{
		expand: func(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, x kernel.Dense) {
			b.pool(blas, dst, scratch, x)
			for i := range dst.Rows {
				row := dst.Row(i)
				for j, factor := range b.factor {
					row[j] = (row[j] - b.mean[j]) * factor
				}
			}
		},
		node: b.node,
	}
}

// node adds the features of prepared inputs to a graph.
func (b *filterBank) node(g *onnx.Graph, x onnx.Value) onnx.Value {
	pixels := g.Node("Add", g.Node("Mul", x, g.Row(b.divided)), g.Row(b.center))
	features := b.nodeOf(g, pixels, false)
	if b.features.Mirror {
		features = g.Node("Add", features, b.nodeOf(g, pixels, true))
	}
	if b.features.Root {
		features = g.Node("Sqrt", g.Node("Add", features, g.Number(1)))
	}
	return g.Node("Mul", g.Node("Sub", features, g.Row(b.mean)), g.Row(b.factor))
}

// nodeOf adds the sums of rectified responses of an image, or of its mirror image, to a graph.
func (b *filterBank) nodeOf(g *onnx.Graph, pixels onnx.Value, mirrored bool) onnx.Value {
	q, f, grid := b.values, b.features.Filters, b.features.Grid
	positions := b.down.positions() * b.across.positions()
	number := make([]float32, b.image.Size()) // the index of each pixel
	for j := range number {
		number[j] = float32(j)
	}
	if mirrored {
		Variant{mirrored: true}.Of(number, slices.Clone(number), b.image)
	}
	places, pooling := make([]int64, 0, positions*q), make([]float32, grid*grid*positions)
	patch := make([]float32, q)
	for y := range b.down.positions() {
		for x := range b.across.positions() {
			for cell := range grid * grid {
				if b.down.within(y, cell/grid) && b.across.within(x, cell%grid) {
					pooling[cell*positions+y*b.across.positions()+x] = 1
				}
			}
			b.patch(patch, number, y, x)
			for _, place := range patch {
				places = append(places, int64(place))
			}
		}
	}
	patches := g.Node("Reshape", g.Along(1, "Gather", pixels, g.Integers(places...)), g.Integers(-1, int64(positions), int64(q)))
	last := g.Integers(2)
	centred := g.Node("Sub", patches, g.Node("ReduceMean", patches, last))
	variance := g.Node("Mul", g.Node("ReduceSumSquare", centred, last), g.Number(1/float32(max(q-1, 1))))
	white := g.Node("MatMul", g.Node("Div", centred, g.Node("Sqrt", g.Node("Add", variance, g.Number(float32(b.contrast))))),
		g.Floats(b.whitening, q, q))
	white = g.Node("Sub", white, g.Row(b.offset))
	length := g.Node("Max", g.Node("ReduceL2", white, last), g.Number(1e-6))
	white = g.Node("Mul", g.Node("Div", white, length), g.Number(float32(math.Sqrt(float64(q)))))
	z, threshold := g.Node("MatMul", white, g.Floats(b.filters.Data, q, f)), g.Number(float32(b.features.Rectify))
	both := g.Along(2, "Concat", g.Node("Relu", g.Node("Sub", z, threshold)), g.Node("Relu", g.Node("Sub", g.Node("Neg", z), threshold)))
	return g.Node("Reshape", g.Node("MatMul", g.Floats(pooling, grid*grid, positions), both), g.Integers(-1, int64(patchColumns(b.features))))
}
