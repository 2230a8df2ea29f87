package screen

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Maximum numbers of filters of a stage and of mistakes on a page.
const (
	maxFilters  = 128
	maxMistakes = 200
)

// Galleries returns pictures of what a run has learnt of images: the filters of its stages, and the test images that
// its version gets wrong. A run without a version, or of other examples, has none.
func Galleries(ctx context.Context, open func(name string) *topics.Pipeline, blas *kernel.BLAS,
	r *dispatch.RunDetails) (list []compare.Gallery, err error) {
	if r.Version == 0 {
		return nil, nil
	}
	m, err := open(r.Pipeline).Model(ctx, fmt.Sprint(r.Version))
	if err != nil || m.Image() == (examples.Image{}) {
		return nil, err
	}
	for t := range m.Manifest.Plan.Stages {
		filters, shape := m.Filters(t)
		if filters.Rows == 0 {
			continue
		}
		g := compare.Gallery{Title: fmt.Sprintf("filters of stage %d", t+1)}
		if filters.Rows > maxFilters {
			g.Title = fmt.Sprintf("the first %d of %d %s", maxFilters, filters.Rows, g.Title)
		}
		for i := range min(filters.Rows, maxFilters) {
			g.Pictures = append(g.Pictures, compare.Picture{Shape: shape, Values: filters.Row(i)})
		}
		list = append(list, g)
	}
	mistakes, err := replay.Mistakes(ctx, open(m.Manifest.Plan.Name), blas, m, maxMistakes)
	if err != nil || len(mistakes) == 0 {
		return list, err
	}
	g := compare.Gallery{Title: fmt.Sprintf("%d misclassified test images", len(mistakes))}
	if len(mistakes) == maxMistakes {
		g.Title = fmt.Sprintf("the first %d misclassified test images", maxMistakes)
	}
	for _, wrong := range mistakes {
		g.Pictures = append(g.Pictures, compare.Picture{
			Caption: fmt.Sprintf("%s as %s", wrong.Label, wrong.Predicted), Shape: m.Image(), Values: wrong.Features,
		})
	}
	return append(list, g), nil
}
