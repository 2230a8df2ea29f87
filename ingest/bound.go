package ingest

import (
	"strconv"
	"time"
)

// Bound is the start or the end of a run on a topic. Offsets has an offset for each partition, or one for all of them.
// Without offsets, the bound is the first message of each partition with this timestamp or a later one.
type Bound struct {
	Time    time.Time
	Offsets []int64
}

// ParseBound parses the values of examples.from or examples.to: a time as in RFC 3339, or offsets. ok is false if they are
// invalid.
func ParseBound(values []string) (b Bound, ok bool) {
	for _, value := range values {
		if t, err := time.Parse(time.RFC3339Nano, value); err == nil && len(values) == 1 {
			return Bound{Time: t}, true
		}
		offset, err := strconv.ParseInt(value, 10, 64)
		if err != nil || offset < 0 {
			return Bound{}, false
		}
		b.Offsets = append(b.Offsets, offset)
	}
	return b, len(values) > 0
}

// On returns the offset for a partition, for a bound with offsets.
func (b Bound) On(partition int) int64 {
	if len(b.Offsets) == 1 {
		return b.Offsets[0]
	}
	return b.Offsets[partition]
}

// Before reports whether a bound is before another one on some partition, as far as they are comparable.
func (b Bound) Before(o Bound) bool {
	switch {
	case (b.Offsets == nil) != (o.Offsets == nil):
		return true // the timestamps of messages decide
	case b.Offsets == nil:
		return b.Time.Before(o.Time)
	}
	for partition := range max(len(b.Offsets), len(o.Offsets)) {
		if len(b.Offsets) != 1 && len(o.Offsets) != 1 && len(b.Offsets) != len(o.Offsets) {
			return true // the number of partitions makes one of them invalid
		}
		if b.On(partition) < o.On(partition) {
			return true
		}
	}
	return false
}
