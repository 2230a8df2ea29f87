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

// topicNames has the ends of the topics of a pipeline, and their growth.
type topicNames struct {
	all     []polled // in the order of the flow
	waits   int64    // messages of the source topic that are not ingested
	unknown bool     // waits is unknown
	learnt  []int64  // by partition of the examples: offset before which versions have processed all messages; −1: unknown
	bad     int64    // number of messages that arrived in quarantine within the time fresh
}

// polled is the state of a topic.
type polled struct {
	role, name string
	partitions []coverage.Span
	ends       []ends // at the last polls
	rates      []float64
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

// pollTopics reads the ends of the topics.
func (r *reader) pollTopics(ctx context.Context) error {
	t := r.client.Topics
	var found []polled
	var missing []error // rights
	bad := int64(0)
	for _, topic := range []struct{ role, name string }{
		{roleSource, r.options.Source}, {roleExamples, t.Examples}, {"residuals", t.Residuals}, {"statistics", t.Statistics},
		{"weights", t.Weights}, {"versions", t.Versions},
		{"state", t.State}, {"plans", t.Plans}, {"forget", t.Forget}, {"quarantine", t.Quarantine}, {"predictions", t.Predictions},
	} {
		if topic.name == "" {
			continue
		}
		p := *r.topics.of(topic.role)
		p.role, p.name, p.partitions = topic.role, topic.name, nil
		exists, err := r.log.Exists(ctx, topic.name)
		if err == nil && exists {
			p.partitions, err = r.client.Log.Spans(ctx, topic.name)
		}
		if err == nil && topic.role == aboutQuarantine {
			bad, err = r.recent(ctx, p.partitions)
		}
		if err = lacks("Describe", topic.name, err); errors.As(err, new(*missingRight)) {
			missing, err = append(missing, err), nil
		}
		if err != nil {
			return err
		}
		found = append(found, p)
	}
	waits, unknown := int64(0), false
	if found[0].role == roleSource {
		if unknown = len(missing) > 0; !unknown && len(found[0].partitions) > 0 {
			var err error
			if waits, err = r.pollSource(ctx, found[1].partitions); err != nil {
				missing, unknown = append(missing, err), true
			}
		}
	}
	now := r.now()
	r.change(func() {
		r.topics.waits, r.topics.unknown, r.topics.bad = waits, unknown, bad
		for i := range found {
			found[i].look(now)
		}
		r.topics.all, r.heard = found, now
	})
	return errors.Join(missing...)
}

// recent returns the number of messages that arrived on the quarantine topic, which has these partitions, within the time fresh.
func (r *reader) recent(ctx context.Context, partitions []coverage.Span) (n int64, err error) {
	if !slices.ContainsFunc(partitions, func(s coverage.Span) bool { return s.Len() > 0 }) {
		return 0, nil
	}
	before, err := r.client.Log.Before(ctx, r.client.Topics.Quarantine, fresh)
	if err != nil {
		return 0, err
	}
	for p, s := range partitions {
		if p < len(before) {
			s.From = max(s.From, before[p])
		}
		n += max(s.To-s.From, 0)
	}
	return n, nil
}

// look adds the end of the topic at a time, and its rate.
func (p *polled) look(now time.Time) {
	var total int64
	for _, s := range p.partitions {
		total += s.To
	}
	if n := len(p.ends); n > 0 && total < p.ends[n-1].total {
		p.ends = nil // the topic was recreated
	}
	p.ends = append(p.ends, ends{now, total})
	p.ends = p.ends[max(0, len(p.ends)-rateOver-1):]
	p.rates = append(p.rates, p.rate())
	p.rates = p.rates[max(0, len(p.rates)-maxRates):]
}

// rate returns the number of messages per second over the last polls.
func (p *polled) rate() float64 {
	first, last := p.ends[0], p.ends[len(p.ends)-1]
	if seconds := last.at.Sub(first.at).Seconds(); seconds > 0 {
		return float64(last.total-first.total) / seconds
	}
	return 0
}

// held returns the number of offsets in the partitions.
func (p *polled) held() (n int64) {
	for _, s := range p.partitions {
		n += s.Len()
	}
	return n
}

// list returns the topics for the page.
func (t *topicNames) list() []Topic {
	list := []Topic{}
	for _, p := range t.all {
		list = append(list, Topic{
			Role: p.role, Name: p.name, Partitions: len(p.partitions), Held: p.held(), Rate: p.rate(), Rates: append([]float64{}, p.rates...),
		})
	}
	return list
}

// learn records the offsets before which a version has processed all messages, by partition.
func (t *topicNames) learn(ends []int64) {
	for len(t.learnt) < len(ends) {
		t.learnt = append(t.learnt, -1)
	}
	for p, end := range ends {
		t.learnt[p] = max(t.learnt[p], end)
	}
}

// of returns the topic of a role: one without partitions if it was not polled.
func (t *topicNames) of(role string) *polled {
	if at := slices.IndexFunc(t.all, func(p polled) bool { return p.role == role }); at >= 0 {
		return &t.all[at]
	}
	return &polled{}
}

// behind returns the number of messages of the examples that no version has processed. known is false before the topics were polled.
func (t *topicNames) behind() (lag int64, known bool) {
	examples := t.of(roleExamples)
	for p, s := range examples.partitions {
		from := s.From
		if p < len(t.learnt) {
			from = max(from, t.learnt[p])
		}
		lag += max(s.To-from, 0)
	}
	return lag, len(examples.partitions) > 0
}

// lags sets how far each reader of a topic is behind.
func (r *reader) lags(s *State) {
	lag := func(role string, n int64, behind string) {
		for i := range s.Topics {
			if s.Topics[i].Role == role {
				s.Topics[i].Lag, s.Topics[i].Behind = &n, behind
			}
		}
	}
	if len(r.topics.of(roleSource).partitions) > 0 && !r.topics.unknown {
		lag(roleSource, r.topics.waits, "messages that are not ingested")
	}
	if n, known := r.topics.behind(); known {
		lag(roleExamples, n, "messages that no version has learnt")
	}
	if len(r.places) > 0 {
		newer := 0
		for i := len(r.places) - 1; i >= 0 && r.places[i].Run != r.latest(); i-- {
			newer++
		}
		lag("versions", int64(newer), "versions newer than the one that subscribers get")
	}
	if s.Run == nil || !s.Run.underWay() {
		return
	}
	missing := int64(s.Run.Of - s.Run.Have)
	if s.Run.Sealing {
		lag("residuals", missing, "partitions whose residuals are not sealed")
		return
	}
	lag("statistics", missing, "partitions that the visit still lacks")
	if missing == 0 && s.Run.Stage < len(s.Run.Stages) {
		lag("weights", 1, "visit that the solver works on")
	}
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
		s.waiting = protocol.NewWaiting(r.client.Log, r.options.Source)
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
		return max(read.Position(partition).Next, r.quarantinedBefore(partition))
	})
	return messages, lacks("Read", r.options.Source, err)
}

// quarantinedBefore returns the offset after the last message of a partition of the source topic that is in quarantine,
// as far as the quarantine was read. No example shows that such a message was read.
func (r *reader) quarantinedBefore(partition int) int64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.quarantine.read[topicPartition{r.options.Source, partition}]
}

// quarantine summarises the unusable messages.
type quarantine struct {
	recent  []BadMessage             // the newest first
	reasons map[string]*Reason       // by kind
	read    map[topicPartition]int64 // the offset after the last message of a partition in quarantine
	count   int64                    // messages that were read
}

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

// followQuarantine reads the last messages in quarantine, and follows new ones.
func (r *reader) followQuarantine(ctx context.Context) error {
	topic := r.client.Topics.Quarantine
	if exists, err := r.log.Exists(ctx, topic); err != nil || !exists {
		return err
	}
	first, end, err := r.client.Log.Bounds(ctx, topic, 0)
	if err != nil {
		return err
	}
	r.change(func() { r.quarantine, r.errors[partQuarantine] = quarantine{}, nil })
	subscription := r.client.Log.Subscribe(ctx, nil, protocol.Position{Topic: topic, Offset: max(first, end-maxBad), Compacted: true})
	defer subscription.Close()
	for {
		delivery, _, err := subscription.Next(ctx, time.Minute)
		if err != nil {
			return err
		}
		if delivery == nil {
			continue
		}
		if q, err := schemas.QuarantinedOf(delivery.Message.Message); err == nil { // other programs may write to the topic
			if !r.options.Values {
				q.Reason = schemas.WithoutValues(q.Reason)
			}
			r.change(func() { r.quarantine.add(q, delivery.Time) })
		}
	}
}

// add adds a message.
func (q *quarantine) add(m *schemas.Quarantined, at time.Time) {
	bad := BadMessage{At: milliseconds(at), Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Bytes: m.Bytes, Reason: m.Reason}
	if q.recent = append([]BadMessage{bad}, q.recent...); len(q.recent) > maxBad {
		q.recent = q.recent[:maxBad]
	}
	if q.reasons == nil {
		q.reasons, q.read = map[string]*Reason{}, map[topicPartition]int64{}
	}
	q.count++
	from := topicPartition{m.Topic, m.Partition}
	q.read[from] = max(q.read[from], m.Offset+1)
	kind := schemas.WithoutValues(m.Reason)
	if q.reasons[kind] == nil {
		if len(q.reasons) >= maxReasons {
			oldest := ""
			for text, reason := range q.reasons {
				if oldest == "" || reason.Last < q.reasons[oldest].Last {
					oldest = text
				}
			}
			delete(q.reasons, oldest)
		}
		q.reasons[kind] = &Reason{}
	}
	reason := q.reasons[kind]
	reason.Messages++
	reason.Last, reason.Reason = max(reason.Last, bad.At), m.Reason
}

// state returns the quarantine for the page, given the number of messages on the topic.
func (q *quarantine) state(held int64) Quarantine {
	s := Quarantine{Held: held, Read: q.count, Reasons: []Reason{}, Recent: slices.Clone(q.recent)}
	for _, reason := range q.reasons {
		s.Reasons = append(s.Reasons, *reason)
	}
	slices.SortFunc(s.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Reason, b.Reason))
	})
	if s.Recent == nil {
		s.Recent = []BadMessage{}
	}
	return s
}
