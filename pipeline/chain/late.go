package chain

import (
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// lateSources are messages that a chain has passed over because their sources were not sealed yet, and now are. An
// increment has them before the unprocessed messages of their partition, so that the messages of a source are counted in
// order. The zero value has none.
type lateSources struct {
	names   []string                            // names of the valid sources, late or not
	counted []map[schemas.Origin]*countedSource // by partition, and by source origin without a sequence number
	left    coverage.Spans                      // spans with unread messages of this kind, among others
}

// countedSource is a source with its progress in a partition.
type countedSource struct {
	schemas.SourceSeal
	next int64 // next sequence number
}

// findLate finds the uncounted messages of sources before the ends of a backlog. progress is the sources' progress in
// runs, and begins the current starts of the topic's partitions.
func findLate(sources []schemas.SourceSeal, progress []schemas.SourceProgress, begins []coverage.Span, ends []int64) (l lateSources) {
	l.counted = make([]map[schemas.Origin]*countedSource, len(ends))
	for n := range ends {
		l.counted[n] = map[schemas.Origin]*countedSource{}
	}
	for _, seal := range sources {
		l.names = append(l.names, seal.Name())
		for _, span := range seal.Spans {
			n := span.Partition
			if n >= len(ends) || n >= len(begins) {
				continue
			}
			next := nextOf(progress, &seal, n)
			l.counted[n][schemas.Origin{Source: seal.ID, Attempt: seal.Attempt}] = &countedSource{seal, next}
			before := max(next-int64(n), 0) / int64(seal.Partitions) // number of its messages counted
			late := coverage.Span{Partition: n, From: max(span.From+before, begins[n].From), To: min(span.To, ends[n])}
			if before < seal.In(n) && !late.Empty() {
				l.left = append(l.left, late)
			}
		}
	}
	l.left = l.left.Merged()
	return l
}

// nextOf returns the next sequence number of a source in a partition.
func nextOf(progress []schemas.SourceProgress, seal *schemas.SourceSeal, partition int) int64 {
	for _, p := range progress {
		if p.Source == seal.ID && p.Attempt == seal.Attempt && partition < len(p.Next) {
			return p.Next[partition]
		}
	}
	return 0
}

// next removes and returns a span of at most the given number of messages of a partition; false if nothing is left.
func (l *lateSources) next(partition int, messages int64) (coverage.Span, bool) {
	for i, s := range l.left {
		if s.Partition == partition {
			s.To = min(s.To, s.From+messages)
			if l.left[i].From = s.To; l.left[i].Empty() {
				l.left = slices.Delete(l.left, i, i+1)
			}
			return s, true
		}
	}
	return coverage.Span{}, false
}

// expire drops messages before an offset of a partition, which retention has deleted.
func (l *lateSources) expire(partition int, begin int64) {
	l.left = slices.DeleteFunc(l.left, func(s coverage.Span) bool { return s.Partition == partition && s.To <= begin })
	for i := range l.left {
		if l.left[i].Partition == partition {
			l.left[i].From = max(l.left[i].From, begin)
		}
	}
}

// counts reports whether the next message in a partition is an uncounted one of a valid source, by the rules of
// protocol.SpanCounting.
func (l *lateSources) counts(partition int, m wire.Message) bool {
	origin, _ := schemas.OriginOf(m)
	s := l.counted[partition][schemas.Origin{Source: origin.Source, Attempt: origin.Attempt}]
	if s == nil || origin.Next > 0 || origin.Sequence < s.next || origin.Sequence >= s.Messages ||
		origin.Sequence%int64(s.Partitions) != int64(partition) {
		return false
	}
	s.next = origin.Sequence + int64(s.Partitions)
	return true
}

// known reports whether a message belongs to a valid source, or needs none.
func (l *lateSources) known(m wire.Message) bool {
	origin, ingested := schemas.OriginOf(m)
	return !ingested || origin.Next > 0 || slices.Contains(l.names, schemas.SourceName(origin.Source, origin.Attempt))
}
