package ingest

import (
	"context"
	"math"
	"runtime"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/wire"
)

func TestIDX(t *testing.T) {
	images := idxFile(8, []uint32{3, 1, 2}, []uint8{1, 2, 3, 4, 5, 255})
	labels := idxFile(8, []uint32{3}, []uint8{7, 0, 255})
	claim := func(kind byte, dims ...uint32) []byte { return idxFile(kind, dims) }
	for _, test := range []struct {
		name           string
		images, labels []byte
		classes        []string
		want           string
	}{
		{"bytes", images, labels, nil, "3 × 2 bytes [1 2 3 4 5 255] numbers [7 0 255]"},
		{"classes", images, labels, []string{"7", "0", "255", "none"}, "3 × 2 bytes [1 2 3 4 5 255] numbers [7 0 255]"},
		{"int8", idxFile(9, []uint32{3, 1}, []int8{-128, 0, 127}), idxFile(9, []uint32{3}, []int8{-1, 0, 1}), nil, "3 × 1 floats [-128 0 127] numbers [-1 0 1]"},
		{"int16", idxFile(11, []uint32{2, 1}, []int16{-32768, 1}), idxFile(11, []uint32{2}, []int16{-2, 300}), nil, "2 × 1 floats [-32768 1] numbers [-2 300]"},
		{"int32", idxFile(12, []uint32{2, 1}, []int32{-70000, 1}), idxFile(12, []uint32{2}, []int32{-70000, 3}), nil, "2 × 1 floats [-70000 1] numbers [-70000 3]"},
		{"float32", idxFile(13, []uint32{1, 2}, []float32{-0.5, 2}), idxFile(8, []uint32{1}, uint8(1)), nil, "1 × 2 floats [-0.5 2] numbers [1]"},
		{"float64", idxFile(14, []uint32{1, 2}, []float64{-0.25, 3}), idxFile(8, []uint32{1}, uint8(1)), nil, "1 × 2 floats [-0.25 3] numbers [1]"},

		{"empty", nil, labels, nil, "images.idx: offset 0: the file ends in its header: unexpected EOF"},
		{"wrong magic", []byte("\x00\x01\x08\x03 and more"), labels, nil, "images.idx: offset 0: an idx file begins with 0000, a type (08 to 0e) and the number of dimensions: this one begins with 00010803"},
		{"wrong type", []byte("\x00\x00\x0a\x03 and more"), labels, nil, "images.idx: offset 0: an idx file begins with 0000, a type (08 to 0e) and the number of dimensions: this one begins with 00000a03"},
		{"header cut off", images[:10], labels, nil, "images.idx: offset 10: the file ends in its header: unexpected EOF"},
		{"images cut off", images[:19], labels, nil, "images.idx: offset 19: the file ends in row 1 of the 3 in its header: unexpected EOF"},
		{"labels cut off", images, labels[:8], nil, "labels.idx: offset 8: the file ends in row 0 of the 3 in its header: unexpected EOF"},
		{"more images", append(images[:len(images):len(images)], 1), labels, nil, "images.idx: offset 22: the file has more bytes than its header announces"},
		{"more labels", images, append(labels[:len(labels):len(labels)], 1), nil, "labels.idx: offset 11: the file has more bytes than its header announces"},
		{"fewer labels", images, idxFile(8, []uint32{2}, []uint8{1, 2}), nil, "labels.idx: offset 4: 2 labels, but images.idx has 3 images"},
		{"labels first", labels, images, nil, "images.idx: offset 0: 3 numbers, as labels are: expected images"},
		{"images twice", images, images, nil, "labels.idx: offset 0: 3 × 1 × 2 values, as images are: expected the labels of images.idx"},
		{"labels that are fractions", images, idxFile(13, []uint32{3}, []float32{1, 2, 3}), nil, "labels.idx: offset 2: labels are floating-point numbers: expected whole numbers"},
		{"label of no class", images, labels, []string{"7", "00"}, `labels.idx: offset 9: label "0" is not one of the classes`},
		{"NaN", idxFile(13, []uint32{3, 2}, []float32{1, 2, 3, 4, 5, float32(math.NaN())}), labels, nil, "images.idx: offset 32, column 1: not a finite float32"},
		{"overflow", idxFile(14, []uint32{3, 1}, []float64{1, 1e39, 3}), labels, nil, "images.idx: offset 20, column 0: not a finite float32"},
		{"no rows", claim(8, 0, 28, 28), claim(8, 0), nil, "images.idx: offset 4: no values: 0 × 28 × 28 values, as images are"},
		{"no columns", claim(8, 3, 28, 0), labels, nil, "images.idx: offset 4: no values: 3 × 28 × 0 values, as images are"},
		{"absurd rows", claim(8, math.MaxUint32, 28, 28), claim(8, math.MaxUint32), nil, "images.idx: offset 16: the file ends in row 0 of the 4294967295 in its header: unexpected EOF"},
		{"absurd columns", claim(8, 3, math.MaxUint32, math.MaxUint32, math.MaxUint32), labels, nil, "images.idx: offset 8: 3 × 4294967295 × 4294967295 × 4294967295 values, as images are: an example does not fit a message of 900000 bytes"},
		{"wide floats", claim(13, 3, 300000), labels, nil, "images.idx: offset 8: 3 × 300000 values, as images are: an example does not fit a message of 900000 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Defaults()
			o.BatchRows = 2
			o.Classes = test.classes
			o.Train = []string{f.write(t, "images.idx", test.images), f.write(t, "labels.idx", test.labels)}
			if got := f.first(t, o); got != test.want {
				t.Errorf("%s\nexpected %s", got, test.want)
			}
		})
	}
}

// Reading allocates nothing per row, and nothing for rows in the header that the file does not have.
func TestIDXAllocation(t *testing.T) {
	const rows = 100_000
	f := newFolder(t)
	o := Defaults()
	o.BatchRows = 100
	o.Classes = []string{"0", "1"}
	o.Train = []string{
		f.write(t, "a.idx", append(idxFile(8, []uint32{rows, 3}), make([]byte, 3*rows)...)),
		f.write(t, "b.idx", append(idxFile(11, []uint32{rows}), make([]byte, 2*rows)...)),
	}
	found, err := Sources(context.Background(), o)
	noError(t, err)
	allocations := testing.AllocsPerRun(1, func() {
		for _, err := range found[0].batches(context.Background(), nil) {
			noError(t, err)
		}
	})
	if allocations > 100 {
		t.Errorf("%v allocations for %d rows", allocations, rows)
	}
	f.write(t, "claims.idx", idxFile(14, []uint32{math.MaxUint32, 100_000}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = readRows(File(context.Background(), f.path("claims.idx"), o, layout.Features{Width: 100_000}))
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4*wire.MaxMessage || err == nil {
		t.Errorf("%d bytes allocated for a claim; %v", allocated, err)
	}
}
