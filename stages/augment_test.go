package stages

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

func TestVariants(t *testing.T) {
	image := []float32{
		1, 2, 3,
		4, 5, 6,
	}
	for a, want := range map[schemas.Augment][][]float32{
		{}:                       nil,
		{Mirror: true}:           {{3, 2, 1, 6, 5, 4}},
		{Shift: 1}:               {{2, 3, 3, 5, 6, 6}, {1, 1, 2, 4, 4, 5}, {4, 5, 6, 4, 5, 6}, {1, 2, 3, 1, 2, 3}},
		{Mirror: true, Shift: 2}: nil, // only their number
	} {
		var got [][]float32
		for _, v := range Variants(a) {
			dst := make([]float32, len(image))
			v.Of(dst, image, examples.Image{2, 3, 1})
			got = append(got, dst)
		}
		if len(got) != a.Rows()-1 {
			t.Errorf("%+v: %d variants, Rows says %d", a, len(got), a.Rows()-1)
		}
		if a.Shift < 2 && !slices.EqualFunc(got, want, slices.Equal[[]float32]) {
			t.Errorf("%+v: %v, expected %v", a, got, want)
		}
		different := map[string]bool{fmt.Sprint(image): true}
		for _, v := range got {
			different[fmt.Sprint(v)] = true
		}
		if len(different) != a.Rows() && a.Shift < 2 { // an image of two rows shifted by 2 equals one shifted by 1
			t.Errorf("%+v: two variants are the same", a)
		}
	}
	colours, dst := []float32{1, 10, 2, 20}, make([]float32, 4)
	Variant{mirrored: true}.Of(dst, colours, examples.Image{1, 2, 2})
	if want := []float32{2, 20, 1, 10}; !slices.Equal(dst, want) {
		t.Errorf("two channels mirrored: %v, expected %v", dst, want)
	}
}
