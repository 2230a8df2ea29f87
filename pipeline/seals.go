package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// seals are those of a run that a worker knows of, its own and others'. The
// zero value knows none.
type seals struct {
	found map[int]map[int]*schemas.Seal // by partition of the examples, and stage
	next  map[int]int64                 // by partition of the statistics: those before are read
}

// of a partition, by stage. It is filled as seals are found.
func (k *seals) of(partition int) map[int]*schemas.Seal {
	if k.found == nil {
		k.found = map[int]map[int]*schemas.Seal{}
	}
	if k.found[partition] == nil {
		k.found[partition] = map[int]*schemas.Seal{}
	}
	return k.found[partition]
}

// findSeals reads which residuals of shares others have sealed: those of who
// owned them before. Before a stage is final there are none.
func (w *worker) findSeals(ctx context.Context, shares []*share) error {
	for _, s := range shares {
		s.seals = w.seals.of(s.span.Partition)
	}
	if final, _ := w.chain.final(0); final == nil {
		return nil
	}
	var partitions []int
	for _, s := range shares {
		partitions = append(partitions, w.statisticsOf(s.span.Partition))
	}
	slices.Sort(partitions)
	for _, p := range slices.Compact(partitions) {
		err := w.readSeals(ctx, p)
		for errors.As(err, new(*kafkalog.DeletedError)) { // retention was faster; what it has deleted is made again
			err = w.readSeals(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("read seals: %w", err)
		}
	}
	return nil
}

// readSeals goes on reading a partition of the statistics up to its end.
func (w *worker) readSeals(ctx context.Context, partition int) error {
	first, end, err := w.log.Bounds(ctx, w.statistics, partition)
	if err != nil {
		return err
	}
	from, begun := w.seals.next[partition]
	if !begun && partition < len(w.plan.Since.Statistics) {
		from = w.plan.Since.Statistics[partition]
	}
	collector := schemas.Collector[float64]{}
	err = w.between(ctx, w.statistics, partition, min(max(first, from), end), end, func(r entry) error {
		m := r.Message
		if m.Get("run") != w.run || m.Kind() != schemas.KindSeal {
			return nil
		}
		record, err := w.codec.collectDouble(&collector, m)
		if err != nil || record == nil {
			return nil // a damaged seal is none
		}
		// One of a stage that is not final for this worker yet is kept: who needs it looks at its parent.
		if _, final := w.chain.final(record.Stage); final != "" && record.Parent != final {
			return nil
		}
		if found, err := schemas.SealOf(record); err == nil {
			w.seals.of(record.Partition)[record.Stage] = found
		}
		return nil
	})
	if err != nil {
		return err
	}
	if w.seals.next == nil {
		w.seals.next = map[int]int64{}
	}
	w.seals.next[partition] = end
	return nil
}
