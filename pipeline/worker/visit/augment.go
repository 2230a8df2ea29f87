package visit

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/stages"
)

// augment adds the plan's augmented training rows to a batch, after the rows of the message, and their raw features to
// raw. A row and its variants share its weight, so that sums over the rows are means over the variants of an image.
func (p *Processor) augment(b *partition.Batch, raw *kernel.Dense) {
	variants, image := stages.Variants(p.Plan.Augment), p.Prepared.Image
	if len(variants) == 0 {
		return
	}
	share := float32(1) / float32(1+len(variants))
	for i := range b.Examples {
		if b.Fitted[i] == 0 {
			continue
		}
		b.Rows.Weights[i] *= share
		b.Fitted[i] *= share
		for range variants {
			b.Rows.Repeat(i)
			b.Fitted = append(b.Fitted, b.Fitted[i])
		}
	}
	all, at := kernel.NewDense(len(b.Fitted), raw.Cols), b.Examples
	copy(all.Data, raw.Data)
	for i := range b.Examples {
		if b.Fitted[i] == 0 {
			continue
		}
		for _, v := range variants {
			v.Of(all.Row(at), raw.Row(i), image)
			at++
		}
	}
	*raw = all
}
