package compare

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Gallery is pictures with a title, such as the filters of a stage.
type Gallery struct {
	Title    string
	Pictures []Picture
}

// Picture is values that are pixels: of an example, or of a filter.
type Picture struct {
	Caption string // what is written below it; "": nothing
	Shape   examples.Image
	Values  []float32 // as many as the shape has
}

// Image returns the picture as an image of which the least value is black and the highest one white. It has colours if the shape has three
// channels; of another number of channels it shows the first.
func (p Picture) Image() image.Image {
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range p.Values {
		if v == v {
			least, most = min(least, float64(v)), max(most, float64(v))
		}
	}
	scale := 0.0
	if most > least && !math.IsInf(most-least, 0) {
		scale = 255 / (most - least)
	}
	channels := p.Shape.Channels()
	level := func(at, c int) uint8 {
		if channels != 3 {
			c = 0
		}
		if v := p.Values[at*channels+c]; v == v {
			return uint8((float64(v) - least) * scale)
		}
		return 0 // a pixel that is missing
	}
	drawn := image.NewRGBA(image.Rect(0, 0, p.Shape.Width(), p.Shape.Height()))
	for at := range p.Shape.Height() * p.Shape.Width() {
		drawn.SetRGBA(at%p.Shape.Width(), at/p.Shape.Width(), color.RGBA{level(at, 0), level(at, 1), level(at, 2), 255})
	}
	return drawn
}

// URL returns the picture as an address that holds the picture itself, so the page asks for nothing.
func (p Picture) URL() (template.URL, error) {
	var file bytes.Buffer
	if err := png.Encode(&file, p.Image()); err != nil {
		return "", fmt.Errorf("encode a picture: %w", err)
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(file.Bytes())), nil
}

// Alternative is what is read out in place of the picture.
func (p Picture) Alternative() string {
	if p.Caption == "" {
		return fmt.Sprintf("a filter of %s", p.Shape)
	}
	return p.Caption
}
