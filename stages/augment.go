package stages

import (
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Variant is an image derived from another one: optionally mirrored from left to right, then shifted. The zero value is
// the image itself.
type Variant struct {
	mirrored    bool
	down, right int // shift in pixels; < 0: up, to the left
}

// Variants returns the variants that a run adds for each image of a training row, besides the image itself.
func Variants(a schemas.Augment) []Variant {
	moved := []Variant{{}}
	for by := 1; by <= a.Shift; by++ {
		moved = append(moved, Variant{right: -by}, Variant{right: by}, Variant{down: -by}, Variant{down: by})
	}
	variants := moved[1:]
	if a.Mirror {
		for _, v := range moved {
			v.mirrored = true
			variants = append(variants, v)
		}
	}
	return variants
}

// Of writes the variant of an image of the given shape into dst. Uncovered pixels repeat the nearest edge pixel: a
// photograph has no background colour.
func (v Variant) Of(dst, pixels []float32, image examples.Image) {
	height, width, channels := image.Height(), image.Width(), image.Channels()
	for y := range height {
		from := min(max(y-v.down, 0), height-1) * width
		for x := range width {
			column := min(max(x-v.right, 0), width-1)
			if v.mirrored {
				column = width - 1 - column
			}
			at := (from + column) * channels
			copy(dst[:channels], pixels[at:at+channels])
			dst = dst[channels:]
		}
	}
}
