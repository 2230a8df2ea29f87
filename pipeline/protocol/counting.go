package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Counting decides which messages of the examples topic count in a run: each sequence number of the plan's sources once,
// and, depending on the plan, messages of other producers and of followed topics. [NewCounting] returns it for all
// partitions of a plan. It is read-only, and safe for concurrent use.
type Counting struct {
	plan    *schemas.Plan
	sources map[schemas.Origin]*schemas.SourceSeal // by message origin, without a sequence number
	removed map[string]bool                        // names of removed sources
}

// NewCounting returns the Counting of a plan.
func NewCounting(plan *schemas.Plan) *Counting {
	c := &Counting{plan, make(map[schemas.Origin]*schemas.SourceSeal, len(plan.Sources)), make(map[string]bool, len(plan.Removed))}
	for i := range plan.Sources {
		seal := &plan.Sources[i]
		c.sources[schemas.Origin{Source: seal.ID, Attempt: seal.Attempt}] = seal
	}
	for _, name := range plan.Removed {
		c.removed[name] = true
	}
	return c
}

// WithoutSpan counts the messages of the plan's sources in partitions without a span in the plan, which were empty at the
// start of the run.
func (c *Counting) WithoutSpan() (expired int64) {
	visited := map[int]bool{}
	for _, span := range c.plan.Spans {
		visited[span.Partition] = true
	}
	for _, seal := range c.plan.Sources {
		for _, span := range seal.Spans {
			if !visited[span.Partition] {
				before, after := c.leftOut(&seal, span.Partition, span.To)
				expired += max(seal.In(span.Partition)-before-after, 0)
			}
		}
	}
	return expired
}

// leftOut counts the messages of a source in a partition that the plan excludes, because retention may delete them or
// by configuration: before an offset, and from it on. The report counts them by offset.
func (c *Counting) leftOut(seal *schemas.SourceSeal, partition int, at int64) (before, after int64) {
	for _, cuts := range []coverage.Spans{c.plan.Expiring, c.plan.Outside} {
		for _, cut := range cuts.On(partition) {
			for _, span := range seal.Spans.On(partition) {
				n := coverage.Span{From: max(cut.From, span.From), To: min(cut.To, span.To)}.Len()
				if cut.From < at {
					before += n
				} else {
					after += n
				}
			}
		}
	}
	return before, after
}

// SpanCounting decides which messages of one span count. Since that depends on earlier messages, SpanCounting must receive all
// messages of the span, in order. [Counting.Replay] returns it.
type SpanCounting struct {
	*Counting
	span coverage.Span
	seen map[*schemas.SourceSeal]*position
	// topics is the progress of followed topics, by message origin without a sequence number.
	topics map[schemas.Origin]int64
	// earlier is the spans processed by earlier runs of a chain, in offset order; nil unless the run is over the window.
	earlier []lookedAt
}

// lookedAt is a span processed by an earlier run of a chain.
type lookedAt struct {
	coverage.Span
	increment *coverage.Increment // determines which of its messages count
}

// position is the progress of a source.
type position struct {
	first int64 // first sequence number seen
	next  int64 // next sequence number to count, or a later one
	count int64 // number of counted messages
}

// Replay returns a SpanCounting at the start of a span of the plan.
func (c *Counting) Replay(span coverage.Span) *SpanCounting {
	r := &SpanCounting{Counting: c, span: span, seen: map[*schemas.SourceSeal]*position{}, topics: map[schemas.Origin]int64{}}
	if c.plan.Chain == nil {
		return r
	}
	for i := range c.plan.Chain.Increments {
		increment := &c.plan.Chain.Increments[i]
		if covered, any := increment.On(span.Partition); any && increment.Number != c.plan.Chain.Number && !increment.Uncounted {
			for _, s := range covered.Spans {
				r.earlier = append(r.earlier, lookedAt{s, increment})
			}
		}
	}
	slices.SortFunc(r.earlier, func(a, b lookedAt) int { return cmp.Compare(a.From, b.From) })
	for _, progress := range c.plan.Chain.Progress {
		if span.Partition >= len(progress.Next) {
			continue
		}
		source, next := schemas.Origin{Source: progress.Source, Attempt: progress.Attempt}, progress.Next[span.Partition]
		if seal := c.sources[source]; seal != nil {
			r.seen[seal] = &position{next: next}
		} else if schemas.IsTopicSource(progress.Source) {
			r.topics[source] = next
		}
	}
	return r
}

// AcceptAt is Accept for a message with an offset. A message processed by an earlier run of the chain counts if it counted
// then, unless its source was removed.
func (r *SpanCounting) AcceptAt(offset int64, m wire.Message) coverage.PassOverReason {
	for len(r.earlier) > 0 && r.earlier[0].To <= offset {
		r.earlier = r.earlier[1:]
	}
	if len(r.earlier) == 0 || offset < r.earlier[0].From {
		return r.Accept(m)
	}
	if r.earlier[0].increment.Skips(r.span.Partition, offset) {
		return coverage.LeftOut
	}
	origin, ingested := schemas.OriginOf(m)
	switch {
	case !ingested || origin.Next > 0 || r.sources[schemas.Origin{Source: origin.Source, Attempt: origin.Attempt}] != nil:
		return ""
	case r.removed[schemas.SourceName(origin.Source, origin.Attempt)]:
		return coverage.Removed
	}
	return coverage.Unsealed
}

// Accept returns the reason why the next message of the span does not count; "" if it counts.
func (r *SpanCounting) Accept(m wire.Message) coverage.PassOverReason {
	origin, ingested := schemas.OriginOf(m)
	if !ingested {
		if r.plan.Foreign {
			return ""
		}
		return coverage.OtherProducer
	}
	if origin.Next > 0 {
		return r.acceptTopic(origin)
	}
	seal := r.sources[schemas.Origin{Source: origin.Source, Attempt: origin.Attempt}]
	switch {
	case seal == nil && r.removed[schemas.SourceName(origin.Source, origin.Attempt)]:
		return coverage.Removed
	case seal == nil && r.plan.Foreign:
		return coverage.Unsealed
	case seal == nil || origin.Sequence >= seal.Messages || origin.Sequence%int64(seal.Partitions) != int64(r.span.Partition):
		return coverage.OtherSource
	}
	// Retention deletes the first messages of a source before the others, so the first message seen need not be the source's
	// first. The later ones are in order, except for duplicates.
	p := r.seen[seal]
	switch {
	case p == nil:
		p = &position{first: origin.Sequence}
		r.seen[seal] = p
	case origin.Sequence < p.next:
		return coverage.Repeated
	}
	p.next = origin.Sequence + int64(seal.Partitions)
	p.count++
	return ""
}

// acceptTopic is Accept for a message of a followed topic. Its writer had seen all messages counted before it, or it is a
// duplicate. So it starts where the previous one ended, or earlier. Once an attempt counts, earlier ones do not.
func (r *SpanCounting) acceptTopic(o schemas.Origin) coverage.PassOverReason {
	if !r.plan.Foreign {
		return coverage.OtherSource
	}
	attempt, next := 0, int64(0) // of the last counted message
	for counted, end := range r.topics {
		if n, err := strconv.Atoi(counted.Attempt); err == nil && counted.Source == o.Source && n > attempt {
			attempt, next = n, end
		}
	}
	if !o.CountsAfter(attempt, next, attempt > 0) {
		return coverage.Repeated
	}
	r.topics[schemas.Origin{Source: o.Source, Attempt: o.Attempt}] = o.Next
	return ""
}

// IncompleteSourceError means that a span lacks messages of a source of the plan.
type IncompleteSourceError struct {
	Source     string // ID of the source
	Attempt    string // of its ingest
	Partition  int    // of the examples topic
	Have, Want int64  // messages of the source in that partition
}

// Error includes the missing messages and possible causes.
func (e *IncompleteSourceError) Error() string {
	return fmt.Sprintf("source %s has %d of %d messages in partition %d: the others were deleted, or the topic was recreated: "+
		"train again to ingest the source again",
		wire.Digest(e.Source).Short(), e.Have, e.Want, e.Partition)
}

// Complete counts the missing messages of the plan's sources. Call it at the end of the span. If the run reads files,
// which must be complete, a missing message is an *IncompleteSourceError.
func (r *SpanCounting) Complete() (missing coverage.PassedOver, err error) {
	if r.plan.Chain != nil { // other runs of the chain count the rest of a source
		return nil, nil
	}
	for i := range r.plan.Sources {
		seal := &r.plan.Sources[i]
		have, want, before, on := int64(0), seal.In(r.span.Partition), int64(0), seal.Spans.On(r.span.Partition)
		if p := r.seen[seal]; p != nil {
			have, before = p.count, p.first/int64(seal.Partitions)
		}
		switch {
		case have == want:
			continue
		case !r.plan.Foreign:
			return nil, &IncompleteSourceError{seal.ID, seal.Attempt, r.span.Partition, have, want}
		case have == 0 && len(on) > 0 && on[0].To <= r.span.From: // the span starts after the messages of the source
			before = want
		}
		outBefore, outAfter := r.leftOut(seal, r.span.Partition, r.span.From)
		missing.Count(coverage.Expired, before-min(before, outBefore))
		missing.Count(coverage.Missing, max(want-have-before-outAfter, 0))
	}
	return missing, nil
}

// Progress returns the progress in the partition of the sources seen: those of the plan in its order, then topics by name.
func (r *SpanCounting) Progress() (progress []statistics.PartitionProgress) {
	for i := range r.plan.Sources {
		seal := &r.plan.Sources[i]
		if p := r.seen[seal]; p != nil {
			progress = append(progress, statistics.PartitionProgress{Partition: r.span.Partition, Source: seal.ID,
				Attempt: seal.Attempt, Next: p.next})
		}
	}
	for _, o := range slices.SortedFunc(maps.Keys(r.topics), func(a, b schemas.Origin) int {
		return strings.Compare(schemas.SourceName(a.Source, a.Attempt), schemas.SourceName(b.Source, b.Attempt))
	}) {
		progress = append(progress, statistics.PartitionProgress{Partition: r.span.Partition, Source: o.Source,
			Attempt: o.Attempt, Next: r.topics[o]})
	}
	return progress
}
