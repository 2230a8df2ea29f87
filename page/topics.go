package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// polled is a topic with what the page does not show of it.
type polled struct {
	Topic
	partitions []coverage.Span
	ends       []ends // at the last polls
}

// ends is the number of messages of a topic at a time.
type ends struct {
	at    time.Time
	total int64
}

// missingRight is an error about a right that the page lacks. The rest of the page is shown.
type missingRight struct {
	right, topic string
	err          *kafkalog.AccessError
}

func (e *missingRight) Error() string {
	return fmt.Sprintf("the right %s on the topic %s is missing: check %s", e.right, e.topic, e.err.Check)
}

func (e *missingRight) Unwrap() error { return e.err }

// lacks returns err as a *missingRight if the brokers denied access.
func lacks(right, topic string, err error) error {
	if denied, ok := errors.AsType[*kafkalog.AccessError](err); ok {
		return &missingRight{right, topic, denied}
	}
	return err
}

// Roles of topics.
const (
	roleSource   = "source"
	roleExamples = "examples"
)

// rateOver is the number of polls over which a rate is computed.
const rateOver = 5

// pollTopics reads the ends of the topics, what has come in quarantine, and how much of the source topic waits.
func (r *reader) pollTopics(ctx context.Context) error {
	t, now := r.client.Topics, r.clock()
	var found []polled
	var problems []error
	var quarantined coverage.Span
	bad := int64(0)
	for _, topic := range []struct{ role, name string }{
		{roleSource, r.options.Source}, {roleExamples, t.Examples}, {"residuals", t.Residuals}, {"statistics", t.Statistics},
		{"weights", t.Weights}, {"versions", t.Versions},
		{"state", t.State}, {"plans", t.Plans}, {"forget", t.Forget}, {"quarantine", t.Quarantine}, {"predictions", t.Predictions},
	} {
		if topic.name == "" {
			continue
		}
		p := *r.topic(topic.role)
		p.Role, p.Name, p.partitions = topic.role, topic.name, nil
		exists, err := r.log.Exists(ctx, topic.name)
		if err == nil && exists {
			p.partitions, err = r.client.Log.Spans(ctx, topic.name)
		}
		if err == nil && topic.role == aboutQuarantine && len(p.partitions) > 0 {
			quarantined = p.partitions[0]
			if quarantined.Len() > 0 {
				var before []int64
				before, err = r.client.Log.Before(ctx, topic.name, fresh)
				bad = quarantined.To - max(quarantined.From, slices.Max(append(before, 0)))
			}
		}
		if err = lacks("Describe", topic.name, err); errors.As(err, new(*missingRight)) {
			problems = append(problems, err)
		} else if err != nil {
			return err
		}
		p.look(now)
		found = append(found, p)
	}
	if err := lacks("Read", t.Quarantine, r.readQuarantine(ctx, quarantined)); err != nil {
		problems = append(problems, err)
	}
	if source := &found[0]; source.Role == roleSource {
		if source.Lag, source.Behind = nil, "messages that are not ingested"; len(problems) == 0 && source.Partitions > 0 {
			waits, err := r.pollSource(ctx, found[1].partitions)
			if source.Lag = &waits; err != nil {
				source.Lag, problems = nil, append(problems, err)
			}
		}
	}
	r.change(func() { r.topics, r.bad, r.heard = found, bad, now })
	return errors.Join(problems...)
}

// look adds the end of the topic at a time, and its rate.
func (p *polled) look(now time.Time) {
	total := int64(0)
	p.Partitions, p.Held = len(p.partitions), 0
	for _, s := range p.partitions {
		total, p.Held = total+s.To, p.Held+s.Len()
	}
	if n := len(p.ends); n > 0 && total < p.ends[n-1].total {
		p.ends = nil // the topic was recreated
	}
	p.ends = append(p.ends, ends{now, total})
	p.ends = p.ends[max(0, len(p.ends)-rateOver-1):]
	p.Rate = 0
	if seconds := now.Sub(p.ends[0].at).Seconds(); seconds > 0 {
		p.Rate = float64(total-p.ends[0].total) / seconds
	}
	p.Rates = append(p.Rates, p.Rate)
	p.Rates = p.Rates[max(0, len(p.Rates)-maxRates):]
}

// topic returns the topic of a role: one without partitions if it was not polled.
func (r *reader) topic(role string) *polled {
	if at := slices.IndexFunc(r.topics, func(p polled) bool { return p.Role == role }); at >= 0 {
		return &r.topics[at]
	}
	return &polled{}
}

// lags returns the topics with how far each reader is behind. run is the current run.
func (r *reader) lags(run *Run) []Topic {
	list := []Topic{}
	for _, p := range r.topics {
		lag := func(n int64, behind string) { p.Lag, p.Behind = &n, behind }
		switch {
		case p.Role == roleExamples && p.Partitions > 0:
			waits := int64(0)
			for n, s := range p.partitions {
				for _, d := range r.catalogue {
					if n < len(d.ends) {
						s.From = max(s.From, d.ends[n])
					}
				}
				waits += s.Len()
			}
			lag(waits, "messages that no version has learnt")
		case p.Role == "versions" && len(r.places) > 0:
			lag(int64(len(r.places)-1-r.at(r.latest())), "versions newer than the one that subscribers get")
		case p.Role == "residuals" && run.underWay() && run.Sealing:
			lag(int64(run.Of-run.Have), "partitions whose residuals are not sealed")
		case p.Role == "statistics" && run.underWay() && !run.Sealing:
			lag(int64(run.Of-run.Have), "partitions that the visit still lacks")
		case p.Role == "weights" && run.underWay() && !run.Sealing && run.Have == run.Of && run.Stage < len(run.Stages):
			lag(1, "visit that the solver works on")
		}
		list = append(list, p.Topic)
	}
	return list
}

// sourceTopic is the position up to which the source topic was ingested. It belongs to the goroutine that polls topics.
type sourceTopic struct {
	waiting *protocol.Waiting
	ends    []int64                  // by partition of the examples, when its state was read
	states  []protocol.TopicProgress // the same
}

// pollSource returns the number of messages of the topic that wait, given the offsets of the examples.
func (r *reader) pollSource(ctx context.Context, examples []coverage.Span) (int64, error) {
	s := &r.source
	if s.waiting == nil {
		s.waiting = protocol.NewWaiting(r.client, r.options.Source)
	}
	for n, span := range examples {
		if n < len(s.ends) && s.ends[n] == span.To {
			continue
		}
		if n >= len(s.ends) {
			s.ends, s.states = append(s.ends, -1), append(s.states, protocol.TopicProgress{})
		}
		// One message has the progress, unless a process wrote it that others have overtaken; then the next one has it.
		state, err := protocol.ReadTopicProgress(ctx, r.client, r.options.Source, span, 1)
		if err != nil {
			return 0, lacks("Read", r.client.Topics.Examples, err)
		}
		s.ends[n], s.states[n] = span.To, state
	}
	read := protocol.MergeTopicProgress(s.states)
	messages, _, err := s.waiting.Count(ctx, func(partition int) int64 {
		// No example shows that a message in quarantine was read.
		return max(read.Position(partition).Next, r.quarantine.read[partition])
	})
	return messages, lacks("Read", r.options.Source, err)
}

// quarantine has the newest unusable messages.
type quarantine struct {
	kept []BadMessage  // the newest last
	read map[int]int64 // by partition of the source topic: the offset after its last message in quarantine
	next int64         // offset after the last message that was read
}

// readQuarantine reads the last messages in quarantine, or those that have come since. span is what the topic has.
func (r *reader) readQuarantine(ctx context.Context, span coverage.Span) error {
	from := r.quarantine.next // only this goroutine changes it
	switch {
	case from == span.To:
		return nil
	case from == 0, from > span.To: // the first time, or the topic was recreated
		from = max(span.From, span.To-maxKept)
		r.change(func() { r.quarantine = quarantine{read: map[int]int64{}} })
	}
	for m, err := range r.client.Remaining(ctx, r.client.Topics.Quarantine, 0, from, span.To) {
		if err != nil {
			return err
		}
		q, err := schemas.QuarantinedOf(m.Message)
		if err == nil && !r.options.Values {
			q.Reason = schemas.WithoutValues(q.Reason)
		}
		r.change(func() {
			r.quarantine.next = m.Offset + 1
			if err != nil {
				return // other programs may write to the topic
			}
			if r.quarantine.add(q, m.Time); q.Topic == r.options.Source {
				r.quarantine.read[q.Partition] = max(r.quarantine.read[q.Partition], q.Offset+1)
			}
		})
	}
	return nil
}

// add adds a message.
func (q *quarantine) add(m *schemas.Quarantined, at time.Time) {
	q.kept = append(q.kept, BadMessage{At: milliseconds(at), Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Bytes: m.Bytes,
		Reason: m.Reason, kind: schemas.WithoutValues(m.Reason)})
	q.kept = q.kept[max(0, len(q.kept)-maxKept):]
}

// state returns the quarantine for the page, given the number of messages on the topic.
func (q *quarantine) state(held int64) Quarantine {
	s := Quarantine{Held: held, Read: int64(len(q.kept)), Reasons: []Reason{}, Recent: []BadMessage{}}
	at := map[string]int{}
	for _, m := range slices.Backward(q.kept) {
		if len(s.Recent) < maxBad {
			s.Recent = append(s.Recent, m)
		}
		if _, known := at[m.kind]; !known {
			at[m.kind] = len(s.Reasons)
			s.Reasons = append(s.Reasons, Reason{Reason: m.Reason})
		}
		reason := &s.Reasons[at[m.kind]]
		reason.Messages, reason.Last = reason.Messages+1, max(reason.Last, m.At)
	}
	slices.SortFunc(s.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Reason, b.Reason))
	})
	s.Reasons = s.Reasons[:min(len(s.Reasons), maxReasons)]
	return s
}
