package score

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// partition writes the predictions of one partition. After each write it reads the messages that other processes wrote before its own: if
// these count, its own do not, and it continues after them.
type partition struct {
	*scorer
	number  int
	state   progress
	reached atomic.Pointer[int64] // offset of the first message without all of its predictions; nil: not known yet

	stop    context.CancelFunc
	err     error // once it has ended
	stopped bool  // its context ended: another process owns the partition, or all partitions end
}

// errOvertaken means that another process has written predictions for the same messages first.
var errOvertaken = errors.New("another process was faster")

// errLost means that a topic has lost its last messages, as after an unclean leader election.
var errLost = errors.New("the topic has lost its last messages")

// run predicts for the messages of the partition until ctx ends. With UntilEnd it returns nil when the messages that the topic had at the
// start have predictions.
func (p *partition) run(ctx context.Context) error {
	for from := int64(-1); ; {
		err := p.score(ctx)
		switch {
		case errors.Is(err, errOvertaken):
			event.Notice(p.rec, "another process also predicts for %s[%d]: continuing after its predictions", p.From, p.number)
		case errors.Is(err, errLost) && p.state.Next != from: // else it would be tried again and again
			from = p.state.Next
			event.Notice(p.rec, "%v: looking up the last predictions", err)
		default:
			return err
		}
	}
}

// score continues after the last prediction.
func (p *partition) score(ctx context.Context) (err error) {
	if p.state, err = p.find(ctx); err != nil {
		return fmt.Errorf("find the last predictions for %s[%d]: %w", p.From, p.number, err)
	}
	if p.state.lost {
		event.Notice(p.rec, "%s[%d] has lost messages with predictions, from offset %d on: predicting for the messages there now",
			p.From, p.number, p.state.Next)
	}
	if p.state.end > 0 && p.state.Scored == (schemas.Scored{}) {
		event.Notice(p.rec, "the predictions on %s[%d] have expired: predicting for all messages of %s[%[2]d]", p.To, p.number, p.From)
	}
	begin := p.state.Scored
	p.reached.Store(&begin.Next)
	group, working := errgroup.WithContext(ctx)
	arrived := make(chan *job)
	group.Go(func() error {
		defer close(arrived)
		return p.read(working, begin, arrived)
	})
	group.Go(func() error { return p.answer(working, arrived) })
	return group.Wait()
}

// job is a message to predict. A message that is no longer on the topic has no value.
type job struct {
	message protocol.Message
	gone    bool
	row     int                   // the first row that has no prediction
	parts   []*schemas.Prediction // once it is predicted
}

// read sends the messages after the last prediction in order.
func (p *partition) read(ctx context.Context, begin schemas.Scored, to chan<- *job) error {
	next := begin.Next
	send := func(j *job) error {
		if j.message.Offset == begin.Next {
			j.row = begin.Row
		}
		select {
		case to <- j:
			next = j.message.Offset + 1
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, last, err := p.client.Log.Bounds(ctx, p.From, p.number)
	if err != nil {
		return err
	}
	if last < next {
		return p.lostExamples()
	}
	messages := p.follow(ctx, next)
	if p.UntilEnd { // messages that the topic had when scoring began
		messages = p.client.Between(ctx, p.From, p.number, next, min(p.bounds[p.number].To, last))
	}
	for m, err := range messages {
		first, deleted := protocol.Deleted(err)
		switch {
		case deleted:
			from := next
			if begin.Row > 0 && from == begin.Next {
				if err := send(&job{message: protocol.Message{Offset: from}, gone: true}); err != nil {
					return err
				}
			}
			if from > 0 {
				event.Notice(p.rec, "the offsets %d to %d of %s[%d] were deleted before they had predictions", from, first-1, p.From, p.number)
			}
			next = first
		case errors.As(err, new(*kafkalog.DeletedError)):
			return p.lostExamples()
		case err != nil:
			return fmt.Errorf("read %s[%d]: %w", p.From, p.number, err)
		default:
			if err := send(&job{message: m}); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow yields the messages of the partition from an offset on, without end. After an error for which
// [protocol.Deleted] returns true, a caller that continues gets the remaining messages.
func (p *partition) follow(ctx context.Context, from int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		for deleted := true; deleted; {
			err := p.deliver(ctx, from, yield)
			if err != nil && !yield(protocol.Message{}, err) {
				return
			}
			from, deleted = protocol.Deleted(err)
		}
	}
}

// deliver yields the messages of the partition from an offset on until an error. It returns nil if the caller stops.
func (p *partition) deliver(ctx context.Context, from int64, yield func(protocol.Message, error) bool) error {
	subscription := p.client.Log.Subscribe(ctx, nil, protocol.Position{Topic: p.From, Partition: p.number, Offset: from})
	defer subscription.Close()
	for {
		d, _, err := subscription.Next(ctx, time.Hour)
		if err != nil || d != nil && !yield(d.Message, nil) {
			return err
		}
	}
}

func (p *partition) lostExamples() error { return fmt.Errorf("%s[%d]: %w", p.From, p.number, errLost) }

// Bounds of the messages that are written together.
const (
	mostTogether = 64
	bytesAtOnce  = 8 << 20
)

// answer predicts messages, and writes the predictions in order. Messages that have arrived together are written together.
func (p *partition) answer(ctx context.Context, arrived <-chan *job) error {
	for j := range arrived {
		select {
		case p.room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := p.answerWith(ctx, j, arrived)
		<-p.room
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// answerWith answers a message, and those that arrive before it is predicted.
func (p *partition) answerWith(ctx context.Context, j *job, arrived <-chan *job) error {
	m, err := p.model(ctx)
	if err != nil {
		return err
	}
	var jobs []*job
	var predicting sync.WaitGroup
	for bytes := 0; j != nil; {
		select {
		case p.cores <- struct{}{}:
		case <-ctx.Done():
			predicting.Wait()
			return ctx.Err()
		}
		next := j
		predicting.Go(func() {
			defer func() { <-p.cores }()
			p.predict(next, m)
		})
		jobs, bytes = append(jobs, j), bytes+len(j.message.Value)
		if j = nil; len(jobs) < mostTogether && bytes < bytesAtOnce {
			select {
			case j = <-arrived:
			default:
			}
		}
	}
	predicting.Wait()
	return p.append(ctx, jobs, m.Manifest.Version)
}

// model returns the model of the version that predicts now. It waits until there is one.
func (s *scorer) model(ctx context.Context) (*model.Model, error) {
	for {
		changed := s.versions.Changed()
		if m := s.versions.Model(); m != nil {
			return m, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// append writes the predictions of messages by a version, and checks whether they count.
func (p *partition) append(ctx context.Context, jobs []*job, version int) error {
	scored := event.Scored{Partition: p.number, Messages: len(jobs), Version: version}
	expected := p.state.Scored // if all predictions count
	var written []*schemas.Prediction
	var messages []wire.Message
	for _, j := range jobs {
		for _, part := range j.parts {
			if scored.Rows += int64(part.Until - part.Row); part.Reason != "" {
				scored.Bad++
			}
			part.After, part.Seen, part.Generation = expected.Next, p.state.end, expected.Generation
			if p.state.lost {
				part.Generation, part.Lost, p.state.lost = expected.Generation+1, true, false
			}
			expected.Count(part)
			m, err := part.Encode(p.client.Memory)
			if err != nil {
				return err
			}
			written, messages = append(written, part), append(messages, m)
		}
	}
	at, err := p.client.Log.Append(ctx, p.To, p.number, messages...)
	if err != nil {
		return fmt.Errorf("write predictions: %w", err)
	}
	if err := p.see(ctx, at, written); err != nil {
		return err
	}
	if p.state.Scored != expected {
		return errOvertaken
	}
	last := jobs[len(jobs)-1].message.Offset
	p.owner.Commit(map[int]int64{p.number: last + 1}, func(error) {}) // only for monitoring tools
	p.reached.Store(&expected.Next)
	p.rec.Record(scored)
	return nil
}

// see updates the state with the messages of the partition from an offset on. A write may take several requests, and other processes may
// write between them.
func (p *partition) see(ctx context.Context, at int64, written []*schemas.Prediction) error {
	_, end, err := p.client.Log.Bounds(ctx, p.To, p.number)
	if err == nil && at < p.state.end {
		err = fmt.Errorf("%s[%d] ended at offset %d, and now at %d: %w", p.To, p.number, p.state.end, at, errLost)
	}
	if err != nil {
		return err
	}
	if at != p.state.end || end != at+int64(len(written)) {
		if written, err = p.predictions(ctx, p.state.end, end); err != nil {
			return fmt.Errorf("read what others have written to %s[%d]: %w", p.To, p.number, err)
		}
	}
	for _, part := range written {
		p.state.Count(part)
	}
	p.state.end = end
	return nil
}

// predict makes the predictions of a message.
func (p *partition) predict(j *job, m *model.Model) {
	whole := schemas.Prediction{
		Topic: p.From, Partition: p.number, Offset: j.message.Offset, Checksum: protocol.MarkOf(p.number, j.message).Checksum,
		Version: m.Manifest.Version, Run: m.Manifest.Run, Row: j.row, Until: j.row, Rows: j.row, Trace: j.message.Trace(),
		Task: m.Task(), Labels: m.Labels(),
	}
	batch, err := p.rowsOf(j, m)
	if err != nil {
		whole.Reason = schemas.QuarantineReason(err)
		j.parts = []*schemas.Prediction{&whole}
		return
	}
	contributions, longest := p.contributions(m, batch)
	k := len(whole.Labels)
	if whole.Task == examples.Numbers {
		whole.Numbers = make([]float64, batch.Rows*k)
		m.Numbers(whole.Numbers, batch)
	} else {
		whole.Probabilities = make([]float32, batch.Rows*k)
		m.Probabilities(whole.Probabilities, batch)
	}
	whole.Rows = batch.Rows
	most := schemas.MaxPredictionRows(whole.Task, whole.Labels, longest)
	for from := j.row; from < batch.Rows || len(j.parts) == 0; from += most {
		part := whole
		part.Row, part.Until = from, min(from+most, batch.Rows)
		j.parts = append(j.parts, &part)
		if contributions != nil {
			part.Contributions = contributions[part.Row:part.Until]
		}
		if whole.Task == examples.Numbers {
			part.Numbers = whole.Numbers[part.Row*k : part.Until*k]
			continue
		}
		part.Probabilities = whole.Probabilities[part.Row*k : part.Until*k]
		for row := range slices.Chunk(part.Probabilities, k) {
			if whole.Task != examples.SeveralLabels {
				part.Classes = append(part.Classes, m.Decide(row))
				continue
			}
			part.Classes = append(part.Classes, link.Largest(row))
			for _, v := range row {
				part.Given = append(part.Given, float64(v) >= m.Threshold())
			}
		}
	}
}

// contributions returns the contributions to the predictions of rows, as JSON, and the number of bytes of the longest;
// nil if predictions have no contributions.
func (s *scorer) contributions(m *model.Model, rows *examples.Rows) (all []string, longest int) {
	if s.Contributions == 0 {
		return nil, 0
	}
	err := m.Contributions(rows, s.Contributions, func(_ int, scores []model.Contributions) {
		text := string(wire.JSON(scores))
		all, longest = append(all, text), max(longest, len(text))
	})
	version := int64(m.Manifest.Version)
	if err != nil && s.unexplained.Swap(version) != version {
		event.Notice(s.rec, "the predictions of version %d are written without contributions: %v", version, err)
	}
	return all, longest
}

// rowsOf returns the rows of a message for a model. The error says why they get no predictions.
func (p *partition) rowsOf(j *job, m *model.Model) (*examples.Rows, error) {
	if j.gone {
		return nil, errors.New("the message was deleted before all of its rows were predicted")
	}
	forgotten := false
	p.forgotten.Load().In(p.number, j.message.Offset, math.MaxInt, func(int, int) { forgotten = true })
	if forgotten {
		return nil, errors.New("rows of the message were forgotten")
	}
	batch, err := examples.Decode(j.message.Value, p.client.Memory)
	if err == nil {
		err = check(m, batch)
	}
	if err == nil {
		err = batch.Align(m.Columns())
	}
	return batch, err
}

// check returns why a model can't predict for examples, or nil.
func check(m *model.Model, batch *examples.Rows) error {
	switch {
	case batch.Sparse != nil && !m.Sparse():
		return fmt.Errorf("%w: sparse features, the model has dense ones", wire.ErrDamaged)
	case batch.Sparse == nil && batch.Rows > 0 && batch.Cols != m.Width():
		return fmt.Errorf("%w: %d features, the model has %d", wire.ErrDamaged, batch.Cols, m.Width())
	case m.Manifest.Plan.Missing != layout.MissingMean && batch.Missing():
		return fmt.Errorf("%w: a feature is missing (examples.missing: error)", wire.ErrDamaged)
	}
	text := batch.ColumnsText()
	if text == "" || m.Columns() == nil || text == m.Columns().Text() {
		return nil
	}
	columns, err := examples.ParseColumns(text)
	if err != nil {
		return err
	}
	if difference := columns.Difference(m.Columns()); difference != "" {
		return fmt.Errorf("%w: %s, as the model has them", wire.ErrDamaged, difference)
	}
	return nil
}
