package compare

import (
	"image/color"
	"math"
	"testing"

	"github.com/stagewise/stagewise/schemas/examples"
)

func TestPicture(t *testing.T) {
	gray := Picture{Shape: examples.Image{1, 3, 1}, Values: []float32{-1, 1, float32(math.NaN())}}.Image()
	colours := Picture{Shape: examples.Image{1, 1, 3}, Values: []float32{0, 127.5, 255}}.Image()
	for i, got := range []color.Color{gray.At(0, 0), gray.At(1, 0), gray.At(2, 0), colours.At(0, 0)} {
		if want := []color.RGBA{{0, 0, 0, 255}, {255, 255, 255, 255}, {0, 0, 0, 255}, {0, 127, 255, 255}}[i]; got != want {
			t.Errorf("pixel %d is %v, expected %v", i, got, want)
		}
	}
	flat := Picture{Shape: examples.Image{1, 1, 1}, Values: []float32{7}}
	if got := flat.Image().At(0, 0); got != (color.RGBA{0, 0, 0, 255}) {
		t.Errorf("a picture of one value is %v", got)
	}
	if url, err := flat.URL(); err != nil || url[:22] != "data:image/png;base64," {
		t.Errorf("%s, %v", url, err)
	}
}
