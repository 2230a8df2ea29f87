package kafkalog

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// plan is the removable parts of a partition.
type plan struct {
	partition
	at         time.Time
	expired    int         // number of leading segments to delete
	until      int64       // in the other segments, batches that end at or before this offset are removed
	compaction *compaction // further removals; nil: none
	// drop and stay are the bytes of the other segments that are removed and kept. overdue means that some bytes have been
	// removable for longer than the topic's segment.ms.
	drop, stay int64
	overdue    bool
}

// plan determines the removable parts of a partition.
func (p partition) plan(now time.Time) (*plan, error) {
	made := &plan{partition: p, at: now}
	if len(p.segments) == 0 {
		return made, nil
	}
	if p.topic.deletes {
		if err := made.expire(now); err != nil {
			return nil, err
		}
	}
	if p.topic.compacts {
		if err := made.compact(now); err != nil {
			return nil, err
		}
	}
	if made.until == 0 && made.compaction == nil {
		return made, nil
	}
	for i := made.expired; i < len(p.segments); i++ {
		stay := int64(0)
		if err := made.remainder(i, func(part []byte) { stay += int64(len(part)) }); err != nil {
			return nil, err
		}
		made.stay, made.drop = made.stay+stay, made.drop+p.segments[i].bytes-stay
	}
	return made, nil
}

// expire plans retention. As in Kafka, it deletes whole segments, oldest first: each if the segments after it have at
// least retention.bytes, or if its newest message is older than retention.ms. The last segment is never deleted for its
// size. Since it may be active for years, its leading messages older than retention.ms are removed.
func (p *plan) expire(now time.Time) error {
	t, last := p.topic, len(p.segments)-1
	rest := p.bytes()
	for _, s := range p.segments[:last] {
		rest -= s.bytes
		old, err := s.older(now, t.retention)
		if err != nil {
			return err
		}
		if !old && (t.retentionBytes < 0 || rest < t.retentionBytes) {
			return nil
		}
		p.expired++
	}
	if t.retention < 0 {
		return nil
	}
	_, err := p.segments[last].headers(func(b batch) bool {
		switch old := age(now, b.MaxTimestamp); {
		case b.NumRecords == 0: // removed before
		case old > t.retention:
			p.until = b.end()
			p.overdue = p.overdue || old-t.retention > t.segmentTime
		default:
			return false
		}
		return true
	})
	return err
}

// older reports whether the segment was last written more than the given time ago, and all its messages are older. A
// negative limit means none.
func (s segment) older(now time.Time, limit time.Duration) (bool, error) {
	if limit < 0 || now.Sub(s.modified) <= limit {
		return false, nil
	}
	old := true
	_, err := s.headers(func(b batch) bool {
		old = b.NumRecords == 0 || b.MaxTimestamp < 0 || age(now, b.MaxTimestamp) > limit
		return old
	})
	return old, err
}

// compaction removes records that are superseded by later ones with the same key, and old tombstones. Records within the
// topic's compaction lag are kept, and supersede nothing. Records without a key are kept.
type compaction struct {
	latest     map[string]int64 // last offset of each key, before until
	until      int64            // first offset of a batch within the compaction lag
	tombstones int64            // tombstones with this timestamp or an earlier one are removed; in milliseconds
}

var errNotPlain = errors.New("the partition has batches that are compressed or of a transaction, or is damaged")

// compact plans compaction, unless batches are compressed or transactional, which only other programs write, or a segment is damaged.
func (p *plan) compact(now time.Time) error {
	t := p.topic
	c := &compaction{latest: map[string]int64{}, until: math.MaxInt64, tombstones: now.Add(-t.tombstones).UnixMilli()}
	for i, s := range p.segments[p.expired:] {
		rest, err := p.batches(s, func(b batch) error {
			records, ok := b.records()
			if !ok {
				return errNotPlain
			}
			if t.lag > 0 && len(records) > 0 && age(now, b.MaxTimestamp) < t.lag {
				c.until = min(c.until, b.FirstOffset)
			}
			for _, r := range records {
				if r.Key != nil && b.FirstOffset < c.until {
					c.latest[string(r.Key)] = b.FirstOffset + int64(r.OffsetDelta)
				}
			}
			return nil
		})
		if err == errNotPlain || err == nil && len(rest) > 0 && p.expired+i < len(p.segments)-1 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	p.compaction = c
	return nil
}

// stays returns the remainder of a batch: itself, a batch with fewer records, or nil.
func (p *plan) stays(b batch) []byte {
	c := p.compaction
	switch {
	case b.end() <= p.until || b.NumRecords == 0:
		return nil
	case c == nil || b.FirstOffset >= c.until:
		return b.raw
	}
	records, _ := b.records() // read before
	kept := slices.DeleteFunc(slices.Clone(records), func(r kmsg.Record) bool {
		return r.Key != nil && (c.latest[string(r.Key)] > b.FirstOffset+int64(r.OffsetDelta) || r.Value == nil && b.time(&r) <= c.tombstones)
	})
	switch len(kept) {
	case len(records):
		return b.raw
	case 0:
		return nil
	}
	return b.with(kept)
}

// remainder calls keep with the remaining batches of a segment, in order, and with batches without records in place of
// removed ones. Nothing remains of a segment without messages, unless it is the last, or the first of a topic that is only
// compacted. keep must not retain the bytes.
func (p *plan) remainder(number int, keep func([]byte)) error {
	s := p.segments[number]
	from, to := s.base, s.base // removed offsets
	begun := number == len(p.segments)-1 || number == 0 && !p.topic.deletes
	rest, err := p.batches(s, func(b batch) error {
		stays := p.stays(b)
		if to = b.end(); stays == nil {
			return nil
		}
		keep(newEmpty(from, b.FirstOffset))
		keep(stays)
		from, begun = to, true
		return nil
	})
	if err == nil && begun {
		keep(newEmpty(from, to))
		keep(rest)
	}
	return err
}

// worthwhile reports whether to rewrite the remaining segments: if at least half of their bytes are removed, or some
// are overdue. So at most half of the remaining bytes on disk is waste, and each rewritten byte removes at least one.
func (p *plan) worthwhile() bool { return p.drop > 0 && (p.drop >= p.stay || p.overdue) }

// rewrite replaces a segment by its remainder. Opening the partition rebuilds the index.
func (p *plan) rewrite(number int) error {
	s := p.segments[number]
	var content []byte
	if err := p.remainder(number, func(part []byte) { content = append(content, part...) }); err != nil {
		return err
	}
	switch int64(len(content)) {
	case 0:
		return s.remove()
	case s.bytes:
		return nil
	}
	return replaceFile(s.data, content, s.modified)
}

// clean applies the topics' retention and compaction settings. It deletes expired segments, and rewrites those of a partition if that is
// worthwhile, or if the topic is in whole and anything can be removed. The oldest segment comes first, so that a killed process leaves no
// superseded record without its successor. The broker must not run. The error includes all partitions that can't be cleaned.
func (l *files) clean(now time.Time, whole ...string) error {
	return l.each(func(p partition) error {
		plan, err := p.plan(now)
		if err != nil {
			return err
		}
		rewrites := plan.worthwhile() || plan.drop > 0 && slices.Contains(whole, p.topic.name)
		if !rewrites && plan.expired == 0 {
			return nil
		}
		for i, s := range p.segments {
			if i < plan.expired {
				err = s.remove()
			} else if rewrites {
				err = plan.rewrite(i)
			}
			if err != nil {
				return err
			}
		}
		if err := p.list(); err != nil {
			return err
		}
		return p.open()
	})
}

// worthARestart is the fraction of the log that must be removable to make a restart of the broker worthwhile.
const worthARestart = 1. / 16

// pays reports whether plans justify a restart of the broker, which takes time in proportion to the log: if they remove enough of the
// log, or a message has been removable for longer than segment.ms of its topic.
func pays(plans map[string]*plan) bool {
	var bytes, waste int64
	for _, p := range plans {
		if bytes += p.bytes(); p.worthwhile() {
			if p.overdue {
				return true
			}
			waste += p.drop
		}
	}
	return waste > 0 && float64(waste) >= worthARestart*float64(bytes)
}

// holds reports whether a plan is still valid for a partition: its files and settings are unchanged, and the plan is recent enough.
func (p *plan) holds(of partition, now time.Time) bool {
	t, shortest := of.topic, time.Duration(math.MaxInt64) // the shortest time after which messages can be removed
	if t.deletes && t.retention >= 0 {
		shortest = min(t.retention, t.segmentTime)
	}
	if t.compacts {
		shortest = min(shortest, t.tombstones)
		if t.lag > 0 {
			shortest = min(shortest, t.lag)
		}
	}
	return p != nil && *p.topic == *t && slices.Equal(p.segments, of.segments) && now.Sub(p.at) < shortest/16
}

// survey plans all partitions. It reads only partitions that have changed or may have expired messages. The broker may run.
func (l *files) survey(now time.Time) error {
	before := l.plans
	l.plans = map[string]*plan{}
	return l.each(func(p partition) error {
		plan := before[p.folder]
		if !plan.holds(p, now) {
			var err error
			if plan, err = p.plan(now); errors.Is(err, fs.ErrNotExist) {
				return nil // the topic was deleted in the meantime
			}
			if err != nil {
				return err
			}
			plan.compaction = nil // it holds all keys in memory
		}
		l.plans[p.folder] = plan
		return nil
	})
}
