package kernel

// Filters is a q×f matrix of filters, one per column, laid out for [BLAS.AddResponses]. The zero value is the 0×0
// matrix. Filters are immutable.
type Filters struct {
	rows, cols int
	even       int       // number of rows whose sign mirroring keeps
	panels     []float32 // see Weights.padded; nil: a BLAS multiplies part by part
	parts      []filterPart
}

// filtersPerPart is the number of filters per BLAS call, so that the responses stay in the cache until they are summed.
const filtersPerPart = 256

// A filterPart is some of the filters: as they are, and with the odd rows negated, for mirrored patches.
type filterPart struct {
	from             int // the first one
	direct, mirrored Dense
}

// NewFilters lays out w, which must not change afterwards. Mirroring an image swaps pixels. Patches and filters are
// represented by the sums of swapped values, in the first even rows of w, and by their differences, in the others: a
// mirrored patch has the same sums, and negated differences. If even is w.Rows, mirrored patches do not count.
func NewFilters(w Dense, even int) Filters {
	w.check("NewFilters", "w", w.Rows, w.Cols)
	f := Filters{rows: w.Rows, cols: w.Cols, even: even}
	if hasAVX2() {
		f.panels = panels(w)
		return f
	}
	for from := 0; from < w.Cols; from += filtersPerPart {
		n := min(filtersPerPart, w.Cols-from)
		part := filterPart{from: from, direct: NewDense(w.Rows, n)}
		for i := range w.Rows {
			copy(part.direct.Row(i), w.Row(i)[from:from+n])
		}
		if even < w.Rows {
			part.mirrored = NewDense(w.Rows, n)
			copy(part.mirrored.Data, part.direct.Data)
			for i, v := range part.mirrored.Data[even*n:] {
				part.mirrored.Data[even*n+i] = -v
			}
		}
		f.parts = append(f.parts, part)
	}
	return f
}

// Scratch returns the number of scratch values that AddResponses needs for the given rows: the loops need none.
func (f Filters) Scratch(rows int) int {
	if f.panels != nil {
		return 0
	}
	return rows * min(f.cols, filtersPerPart)
}

// AddResponses multiplies x (n×q) by the filters. For each of the n·f responses z it adds max(z, threshold) to the
// first row of sums (2×f), and max(−z, threshold) to the second. If mirrored patches count, it adds the same of their
// responses to mirrored (2×f), which may be sums itself; otherwise mirrored is unused. The caller obtains the sums of
// max(z − threshold, 0) by subtracting threshold once per response, which saves two vector operations.
//
// A patch and its mirror image share the products of sums and those of differences: their responses are the sum and the
// difference of both.
func (b *BLAS) AddResponses(sums, mirrored, x Dense, f Filters, threshold float32, scratch []float32) {
	odd := f.rows - f.even
	x.check("AddResponses", "x", x.Rows, f.rows)
	sums.check("AddResponses", "sums", 2, f.cols)
	if odd > 0 {
		mirrored.check("AddResponses", "mirrored", 2, f.cols)
	}
	if len(x.Data) == 0 {
		return
	}
	if f.panels == nil {
		for _, part := range f.parts {
			z := Dense{Rows: x.Rows, Cols: part.direct.Cols, Data: scratch[:x.Rows*part.direct.Cols]}
			b.Mul(z, x, part.direct, false)
			addRectified(sums, part.from, z, threshold)
			if odd > 0 {
				b.Mul(z, x, part.mirrored, false)
				addRectified(mirrored, part.from, z, threshold)
			}
		}
		return
	}
	if odd == 0 {
		mirrored = sums // only its address is used
	}
	var tile [8 * panel]float32
	for from := 0; from < f.cols; from += panel {
		w := &f.panels[from*f.rows]
		if to := from + panel; to <= f.cols {
			addResponses(&sums.Data[from], &sums.Data[f.cols+from], &mirrored.Data[from], &mirrored.Data[f.cols+from],
				&x.Data[0], w, &tile[0], threshold, x.Rows, f.even, odd)
			continue
		}
		var wide [4][panel]float32 // the last panel has more columns than sums
		addResponses(&wide[0][0], &wide[1][0], &wide[2][0], &wide[3][0], &x.Data[0], w, &tile[0], threshold, x.Rows, f.even, odd)
		for j := range f.cols - from {
			for side := range 2 {
				sums.Row(side)[from+j] += wide[side][j]
				if odd > 0 {
					mirrored.Row(side)[from+j] += wide[2+side][j]
				}
			}
		}
	}
}

// addRectified adds the rectified responses z of some filters to sums.
func addRectified(sums Dense, from int, z Dense, threshold float32) {
	above, below := sums.Row(0)[from:from+z.Cols], sums.Row(1)[from:from+z.Cols]
	for i := range z.Rows {
		for j, v := range z.Row(i) {
			above[j] += max(v, threshold)
			below[j] -= min(v, -threshold)
		}
	}
}
