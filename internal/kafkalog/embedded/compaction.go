package embedded

import (
	"errors"
	"math"
	"time"
)

// compaction removes records that are superseded by later ones with the same key, and old tombstones. Records within the
// topic's compaction lag are kept, and supersede nothing. Records without a key are kept.
type compaction struct {
	latest     map[string]int64 // last offset of each key, before until
	until      int64            // first offset of a batch within the compaction lag
	tombstones int64            // tombstones with this timestamp or an earlier one are removed; in milliseconds
}

// errNotPlain aborts the compaction of a partition.
var errNotPlain = errors.New("the partition has batches that are not plain, or is damaged")

// newCompaction reads segments. It returns nil if they can't be compacted: if batches are compressed or transactional,
// which only other programs write, or a segment is damaged.
func newCompaction(t *topic, segments []segment, now time.Time) (*compaction, error) {
	c := &compaction{latest: map[string]int64{}, until: math.MaxInt64, tombstones: now.Add(-t.tombstones).UnixMilli()}
	for i, s := range segments {
		sound, err := s.batches(func(b batch) error {
			records, ok := b.records()
			if !b.plain() || !ok {
				return errNotPlain
			}
			if t.lag > 0 && b.count() > 0 && age(now, b.maxTime()) < t.lag {
				c.until = min(c.until, b.base())
			}
			if b.base() >= c.until {
				return nil
			}
			for _, r := range records {
				if r.key != nil {
					c.latest[string(r.key)] = r.offset
				}
			}
			return nil
		})
		if errors.Is(err, errNotPlain) || err == nil && sound < s.bytes && i < len(segments)-1 {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// stays returns the remainder of a batch: itself, a batch with fewer records, or nil.
func (c *compaction) stays(b batch) batch {
	if b.base() >= c.until {
		return b
	}
	records, _ := b.records() // read before
	kept := records[:0:0]
	for _, r := range records {
		if r.key != nil && (c.latest[string(r.key)] > r.offset || r.absent && r.time <= c.tombstones) {
			continue
		}
		kept = append(kept, r)
	}
	switch len(kept) {
	case len(records):
		if len(records) == 0 {
			return nil
		}
		return b
	case 0:
		return nil
	}
	return b.with(kept)
}
