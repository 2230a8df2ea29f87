package examples

import (
	"encoding/json"
	"fmt"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Image is the shape of examples that are images: height, width and channels, in pixels. The features of an example are the rows of
// the image from the top, each with its pixels from the left, each with its channels. The zero value means that examples are not images.
type Image [3]int

// maxImageSide limits each number of a shape, so that their product can't overflow.
const maxImageSide = 1 << 16

// Height returns the number of rows of pixels.
func (i Image) Height() int { return i[0] }

// Width returns the number of pixels of a row.
func (i Image) Width() int { return i[1] }

// Channels returns the number of values of a pixel.
func (i Image) Channels() int { return i[2] }

// Size returns the number of features of an image.
func (i Image) Size() int { return i[0] * i[1] * i[2] }

// String returns the shape in human-readable form, such as 28 × 28 × 1.
func (i Image) String() string { return fmt.Sprintf("%d × %d × %d", i[0], i[1], i[2]) }

// Text returns the shape as JSON, such as [28,28,1]; "" for the zero value.
func (i Image) Text() string {
	if i == (Image{}) {
		return ""
	}
	return string(wire.JSON(i))
}

// ParseImage is the inverse of [Image.Text]. The error wraps [wire.ErrDamaged].
func ParseImage(text string) (i Image, err error) {
	if text == "" {
		return i, nil
	}
	var shape []int
	if err := json.Unmarshal([]byte(text), &shape); err != nil {
		return i, fmt.Errorf("%w: shape of images %s: %w", wire.ErrDamaged, stream.Quote(text), err)
	}
	if len(shape) == len(i) {
		i = Image(shape)
	}
	if !i.valid() {
		return Image{}, fmt.Errorf("%w: shape of images %s: expected height, width and channels, such as [28, 28, 1]", wire.ErrDamaged,
			stream.Quote(text))
	}
	return i, nil
}

// Check returns an error unless examples can have the shape, which is zero if they are not images.
func (i Image) Check() error {
	if i != (Image{}) && !i.valid() {
		return fmt.Errorf("shape of images %v: expected height, width and channels, such as [28, 28, 1]", i[:])
	}
	return nil
}

// valid reports whether an image can have the shape.
func (i Image) valid() bool {
	for _, n := range i {
		if n < 1 || n > maxImageSide {
			return false
		}
	}
	return true
}
