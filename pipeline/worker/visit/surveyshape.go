package visit

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// checkColumns returns an error if the columns of a message differ from those of the run's first message: a model
// identifies features by position. A message without column names is assumed to have the same columns.
func (p *surveyor) checkColumns(examples *examples.Batch) error {
	if text := examples.Columns(); text == "" || text == p.columnsText {
		return nil
	}
	columns, err := columnsOf(examples)
	if err != nil || p.columns == nil {
		return err
	}
	if difference := columns.Difference(p.columns); difference != "" {
		return fmt.Errorf("%w: %s, as in the first message of the run", wire.ErrDamaged, difference)
	}
	return nil
}

// columnsOf returns the columns in a message; nil if it has none.
func columnsOf(batch *examples.Batch) (examples.Columns, error) {
	columns, err := examples.ParseColumns(batch.Columns())
	if n := columns.Features(); err == nil && columns != nil && n != batch.Width && !batch.Sparse {
		err = fmt.Errorf("%w: %d features, its columns have %d", wire.ErrDamaged, batch.Width, n)
	}
	return columns, err
}

// checkImage returns an error if the image shape of a message differs from that of the run's first message. A message
// without an image shape is assumed to have the same.
func (p *surveyor) checkImage(batch *examples.Batch) error {
	text := batch.Image()
	if text == "" || text == p.image.Text() {
		return nil
	}
	image, err := imageOf(batch)
	if err == nil && p.image != (examples.Image{}) && image != p.image {
		err = fmt.Errorf("%w: images of %v, those of the first message of the run are of %v", wire.ErrDamaged, image, p.image)
	}
	return err
}

// imageOf returns the image shape in a message; zero if it has none.
func imageOf(batch *examples.Batch) (examples.Image, error) {
	image, err := examples.ParseImage(batch.Image())
	if n := image.Size(); err == nil && n > 0 && n != batch.Width {
		err = fmt.Errorf("%w: %d features, its images have %d", wire.ErrDamaged, batch.Width, n)
	}
	return image, err
}
