package disk

import (
	"errors"
	"math"
	"time"
)

// compaction drops records that later ones with the same key have replaced, and tombstones that are old enough. Records that are
// younger than the topic's lag stay, and replace nothing. Records without a key stay.
type compaction struct {
	latest     map[string]int64 // the last offset of each key below until
	until      int64            // the first offset of a batch that is too young
	tombstones int64            // those of this time or before go; in milliseconds
}

// errNotPlain ends the reading of a partition that is not compacted.
var errNotPlain = errors.New("the partition has batches that are not plain, or is damaged")

// newCompaction reads segments. It returns nil if they can't be compacted: because batches are compressed or of transactions, which
// only other programs write, or because a segment is damaged.
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

// stays returns what stays of a batch: itself, a batch with fewer records, or nil.
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
