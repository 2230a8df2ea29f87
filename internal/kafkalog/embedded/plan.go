package embedded

import "time"

// plan is the removable parts of a partition.
type plan struct {
	partition
	expired    int         // number of leading segments to delete
	until      int64       // in the others, batches that end here or before are removed
	compaction *compaction // further removals; nil: none

	first, end int64 // offset range of the other segments
	// drop and stay are the bytes of the other segments that are removed and kept. overdue means that some have been removable
	// for longer than the topic's segment.ms.
	drop, stay int64
	overdue    bool
}

// plan determines the removable parts of a partition.
func (p partition) plan(now time.Time) (*plan, error) {
	made := &plan{partition: p}
	if len(p.segments) == 0 {
		return made, nil
	}
	if p.topic.deletes {
		if err := made.expire(now); err != nil {
			return nil, err
		}
	}
	if p.topic.compacts {
		var err error
		if made.compaction, err = newCompaction(p.topic, p.segments[made.expired:], now); err != nil {
			return nil, err
		}
	}
	if made.until == 0 && made.compaction == nil {
		return made, nil
	}
	return made, made.measure()
}

// expire plans retention. As in Kafka, it deletes the oldest segments, as a whole and without gaps, while those after it
// have retention.bytes, or if its newest message is older than retention.ms. The last segment is never deleted for its
// size. As it may be active for years, its leading messages older than retention.ms are removed.
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
		switch old := age(now, b.maxTime()); {
		case b.count() == 0: // removed before
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
		old = b.count() == 0 || b.maxTime() < 0 || age(now, b.maxTime()) > limit
		return old
	})
	return old, err
}

// measure determines the removed and the kept bytes of the segments that are not deleted as a whole.
func (p *plan) measure() error {
	begun := false
	for _, s := range p.segments[p.expired:] {
		if _, err := s.headers(func(b batch) bool {
			if !begun {
				p.first, begun = b.base(), true
			}
			p.end = b.end()
			return true
		}); err != nil {
			return err
		}
	}
	for _, s := range p.segments[p.expired:] {
		if _, err := s.batches(func(b batch) error {
			stays := int64(len(p.stays(b)))
			p.drop += b.bytes() - stays
			p.stay += stays
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// worthwhile reports whether to rewrite the remaining segments: if more is removed than kept, or some is overdue. So at
// most half of the remaining bytes on disk is waste, and each rewritten byte removes at least one.
func (p *plan) worthwhile() bool { return p.drop > 0 && (p.drop >= p.stay || p.overdue) }

// stays returns the remainder of a batch: itself, a batch with fewer records, or nil. The last batch is kept at least
// without records, and so is the first of a topic that is only compacted: they mark the start and the end of the log.
func (p *plan) stays(b batch) batch {
	stays := b
	switch {
	case b.end() <= p.until:
		stays = nil
	case p.compaction != nil:
		stays = p.compaction.stays(b)
	}
	if stays == nil && (b.end() == p.end || b.base() == p.first && !p.topic.deletes) {
		stays = b.with(nil)
	}
	return stays
}
