package stages

import (
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Variant is an image that is made of another one: mirrored from left to right or not, and then moved. The zero value is the image itself.
type Variant struct {
	mirrored    bool
	down, right int // by so many pixels; < 0: up, to the left
}

// Variants returns the images that a run makes of each image of a training row, beside the image itself.
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

// Of writes the variant of an image of that shape into dst. Where the image that is moved has no pixel, the nearest one at its edge is
// repeated: a photograph has no colour of its background.
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
