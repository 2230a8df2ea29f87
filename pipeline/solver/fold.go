package solver

import (
	"cmp"
	"context"
	"errors"
	"io"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// foldGrams adds the Gram matrices of a run from the statistics topic to the moments of each stage, in the order in which the
// run's solver added them. whole is false if matrices are missing.
func foldGrams(ctx context.Context, c *protocol.Client, blas *kernel.BLAS, since schemas.StatePlace, moments []*solve.Moments) (whole bool,
	err error) {
	if since.Since == nil {
		return false, nil
	}
	found := map[wire.Identity]*accumulate.Sum{}
	for n, from := range since.Since.Statistics {
		if err := read(ctx, c, since.Run, n, from, found); err != nil {
			return false, err
		}
	}
	tree := coverage.Tree{Parts: len(since.Partitions), Group: since.Group}
	for t, m := range moments {
		if m.Gram == nil {
			continue
		}
		take := func(kinds ...wire.Kind) func(from, to int) (*accumulate.Sum, error) {
			return func(from, to int) (sum *accumulate.Sum, _ error) {
				for _, kind := range kinds {
					id := wire.Identity{Kind: kind, Run: since.Run, Stage: t, Partition: since.Partitions[from]}
					if to-from > 1 {
						id.Merged = to - from
					}
					sum = cmp.Or(sum, found[id])
					delete(found, id)
				}
				return sum, nil
			}
		}
		add := func(factor float64, sum *accumulate.Sum, leaving []float64) error {
			of := accumulate.GramOfRows{BLAS: blas, Size: len(m.Gram), Partitions: since.Partitions, Tree: tree}
			rows, err := of.Sum(sum.Tensors(), leaving)
			if err != nil {
				return err
			}
			sum.Move(rows, statistics.FieldGram, statistics.FieldGram)
			if !sum.HasGram() {
				return nil
			}
			gram, err := sum.Tensors().Shaped(statistics.FieldGram, len(m.Gram))
			if err == nil {
				floats.AddScaled(m.Gram, factor, gram)
			}
			return err
		}
		added, leaves := accumulate.NewReduction(tree), accumulate.NewReduction(tree)
		lacking, err := added.AddReady(take(statistics.KindGram, statistics.KindGramRows))
		if err != nil {
			return false, err
		}
		if lacking >= 0 {
			return false, nil
		}
		sum, err := added.Sum()
		if err != nil {
			return false, err
		}
		m.Decay(since.Decay) // of the Gram matrix: the other moments are read later
		if err := add(1, sum, nil); err != nil {
			return false, err
		}
		takesAway := false
		_, err = leaves.AddReady(func(from, to int) (*accumulate.Sum, error) {
			sum, err := take(statistics.KindLeave, statistics.KindLeaveRows)(from, to)
			takesAway = takesAway || sum != nil
			if sum == nil && to-from == 1 { // a run that subtracts nothing has no such records
				sum = &accumulate.Sum{}
			}
			return sum, err
		})
		if err != nil {
			return false, err
		}
		if !takesAway {
			continue
		}
		if sum, err = leaves.Sum(); err != nil {
			return false, err
		}
		if err := add(-1, sum, since.Leave); err != nil {
			return false, err
		}
	}
	return true, nil
}

// read reads the Gram matrices of a run from a partition of the statistics topic: the first for each stage, kind, and
// examples partition or merged partitions.
func read(ctx context.Context, c *protocol.Client, id string, partition int, from int64, found map[wire.Identity]*accumulate.Sum) error {
	singles, doubles := wire.Collector[float32]{}, wire.Collector[float64]{}
	err := c.Remaining(ctx, c.Topics.Statistics, partition, from, 1<<62, func(m protocol.Message) error {
		if m.Run() != id || !statistics.OfGram(m.Kind()) {
			return nil
		}
		of, err := wire.IdentityOf(m.Message)
		if err != nil || of.Stage < 0 || of.Visit != 0 {
			return nil
		}
		key := of
		key.Parent = ""
		if found[key] != nil {
			return nil
		}
		if !isSingle(of) {
			r, err := c.Codec.CollectDouble(&doubles, m.Message)
			if err != nil || r == nil {
				return err
			}
			found[key], err = exactGram(r)
			return err
		}
		r, err := c.Codec.CollectSingle(&singles, m.Message)
		if err != nil || r == nil {
			return err
		}
		found[key], err = singleGram(r, func(n int) []float64 { return make([]float64, n) })
		return err
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
