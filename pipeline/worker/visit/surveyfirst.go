package visit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// first is the properties that the survey takes from the plan's first usable message, and the shift about which moments
// are taken: the mean of the first message with weighted rows.
type first struct {
	statistics.Common
	shape       *rowShape     // nil: no message is usable
	columnsText string        // Columns.Text of Columns
	read        []readMessage // messages from which these were read
}

// firstOf returns the properties of a run whose rows have a shape.
func firstOf(shape *rowShape, image examples.Image) *first {
	return &first{Common: statistics.Common{Columns: shape.Columns, Image: image}, shape: shape, columnsText: shape.Columns.Text()}
}

// readMessage is a message that the survey has read in advance.
type readMessage struct {
	partition int
	offset    int64
	checksum  uint64
}

// checkRead returns an error if messages of the segment that the survey has read in advance were replaced: the topic has changed during
// the run.
func (s *Survey) checkRead(l *Load) error {
	span := l.Segment().Span
	for _, read := range s.first.read {
		if read.partition != span.Partition || read.offset < span.From || read.offset >= span.To {
			continue
		}
		if !slices.ContainsFunc(l.Messages, func(m protocol.Message) bool {
			return m.Offset == read.offset && Checksum(m, span.Partition, 0) == read.checksum
		}) {
			return fmt.Errorf("examples %s[%d]@%d: another message was there when the survey began", s.Client.Topics.Examples, span.Partition,
				read.offset)
		}
	}
	return nil
}

// findFirst finds the plan's first usable message. If there is none, it returns an empty first and a
// *protocol.NoExamplesError. The survey of an update, which keeps the preparation of the previous version, needs no usable
// message.
func (s *Survey) findFirst(ctx context.Context) (*first, error) {
	if s.Plan.Update() != nil {
		found := firstOf(&rowShape{Sparse: s.Earlier.Sparse(), Width: s.Earlier.Width(), Columns: s.Earlier.Columns()}, examples.Image{})
		if !found.shape.Sparse {
			found.Shift = make([]float32, found.shape.Width)
		}
		return found, nil
	}
	none, found := &protocol.NoExamplesError{Topic: s.Client.Topics.Examples, Other: s.Plan.Topic != ""}, &first{}
	for _, span := range s.Plan.Spans {
		if whole, err := s.searchFirst(ctx, span, found, none); err != nil || whole {
			return found, err
		}
	}
	if found.shape == nil {
		return found, none
	}
	// No row has a weight, or none has targets.
	if found.Shift == nil && !found.shape.Sparse {
		found.Shift = make([]float32, found.shape.Width)
	} else if found.Shift == nil {
		found.Shift = make([]float32, found.Columns.Features())
	}
	if found.TargetShift == nil && len(s.Plan.Targets) > 0 && s.Plan.Prepares() {
		found.TargetShift = make([]float64, len(s.Plan.Targets))
	}
	return found, nil
}

// searchFirst searches a span for the properties that found lacks, and adds unusable messages to none. It reports whether
// found is complete.
func (s *Survey) searchFirst(ctx context.Context, span coverage.Span, found *first, none *protocol.NoExamplesError) (whole bool,
	err error) {
	replay := s.counting.Replay(span)
	for m, err := range s.Log.Range(ctx, s.Client.Topics.Examples, span.Partition, span.From, span.To) {
		if err != nil {
			return false, err
		}
		if reason := replay.AcceptAt(m.Offset, m.Message); reason != "" {
			none.PassedOver.Count(reason, 1)
			continue
		}
		examples, err := s.decode(s.Plan.Forgotten, span.Partition, m, found.shape)
		if concernsRun(err) {
			return false, fmt.Errorf("examples %s[%d]@%d: %w", s.Client.Topics.Examples, span.Partition, m.Offset, err)
		}
		if err == nil {
			had := *found
			whole, err = s.firstIn(found, examples)
			if had.shape != found.shape || len(had.Shift) != len(found.Shift) || len(had.TargetShift) != len(found.TargetShift) {
				found.read = append(found.read, readMessage{span.Partition, m.Offset, Checksum(m, span.Partition, 0)})
			}
			if errors.As(err, new(*stages.DenseError)) || errors.As(err, new(*stages.SparseError)) { // the plan does not fit its examples
				return false, err
			}
		}
		switch {
		case err != nil: // the survey reports the message
			if none.Bad++; none.First == nil {
				err = s.shownCause(span.Partition, m.Offset, err)
				none.First = fmt.Errorf("%s[%d]@%d: %w", s.Client.Topics.Examples, span.Partition, m.Offset, err)
			}
		case whole:
			return true, nil
		}
	}
	return false, nil
}

// firstIn is searchFirst for the rows of a message.
func (s *Survey) firstIn(found *first, batch *examples.Rows) (whole bool, err error) {
	columns, err := columnsOf(batch)
	if err != nil || batch.Rows == 0 {
		return false, err
	}
	image, err := imageOf(batch)
	if err != nil {
		return false, err
	}
	if err := stages.CheckRows(s.Plan.Prepare, batch.Sparse != nil); err != nil {
		return false, err
	}
	var x kernel.Dense
	readFeatures(&x, batch)
	left := leaveOutOverflows(s.Plan, batch, x)
	if len(left) == batch.Rows {
		return false, overflowError("features", left)
	}
	weighs := func(row int) bool { return batch.Weight(row) != 0 && !slices.Contains(left, row) }
	targets, err := s.meanTargets(batch, weighs)
	if err != nil {
		return false, err
	}
	if found.shape == nil {
		*found = *firstOf(&rowShape{Sparse: batch.Sparse != nil, Width: batch.Cols, Columns: columns}, image)
	}
	if found.TargetShift == nil {
		found.TargetShift = targets
	}
	hasTargets := found.TargetShift != nil || len(s.Plan.Targets) == 0 || !s.Plan.Prepares()
	if batch.Sparse != nil && columns != nil {
		x.Reshape(batch.Rows, columns.Features())
		batch.Sparse.Leading(x.Data, x.Cols)
	}
	if batch.Sparse != nil && x.Cols == 0 || found.Shift != nil {
		return hasTargets, nil
	}
	some := false
	for i := range batch.Rows {
		some = some || weighs(i)
	}
	if !some {
		return false, nil
	}
	for _, i := range left {
		for j := range x.Row(i) {
			x.Row(i)[j] = float32(math.NaN()) // excluded from the means
		}
	}
	if batch.Sparse == nil {
		stages.ScaleRows(s.Plan.Prepare, x)
	}
	found.Shift = means(x, batch.Weight)
	return hasTargets, nil
}

// meanTargets returns the mean of each target over the rows for which counts returns true; nil for classification, or if
// no such row has targets.
func (s *Survey) meanTargets(examples *examples.Rows, counts func(row int) bool) ([]float64, error) {
	k := len(s.Plan.Targets)
	if k == 0 || !s.Plan.Prepares() {
		return nil, nil
	}
	numbers, known := make([]float64, examples.Rows*k), make([]bool, examples.Rows)
	if err := examples.CopyTargets(numbers, known, s.Plan.Targets); err != nil {
		return nil, err
	}
	mean, n := make([]float64, k), 0.0
	for i := range examples.Rows {
		if !known[i] || !counts(i) {
			continue
		}
		n++
		for c, y := range numbers[i*k : (i+1)*k] {
			mean[c] += (y - mean[c]) / n
		}
	}
	if n == 0 {
		return nil, nil
	}
	return mean, nil
}

// means returns the mean of each column over the weighted rows. Missing values (NaN) are ignored.
func means(x kernel.Dense, weight func(row int) float32) []float32 {
	sums, counts := make([]float64, x.Cols), make([]int, x.Cols)
	for i := range x.Rows {
		if weight(i) == 0 {
			continue
		}
		for j, v := range x.Row(i) {
			if v == v {
				sums[j] += float64(v)
				counts[j]++
			}
		}
	}
	mean := make([]float32, x.Cols)
	for j, n := range counts {
		if n > 0 {
			mean[j] = float32(sums[j] / float64(n))
		}
	}
	return mean
}

// checkColumns returns an error if the columns of a message differ from those of the run's first message: a model
// identifies features by position. A message without column names is assumed to have the same columns.
func (p *surveyor) checkColumns(examples *examples.Rows) error {
	if text := examples.ColumnsText(); text == "" || text == p.columnsText {
		return nil
	}
	columns, err := columnsOf(examples)
	if err != nil || p.Columns == nil {
		return err
	}
	if difference := columns.Difference(p.Columns); difference != "" {
		return fmt.Errorf("%w: %s, as in the first message of the run", wire.ErrDamaged, difference)
	}
	return nil
}

// columnsOf returns the columns in a message; nil if it has none.
func columnsOf(batch *examples.Rows) (examples.Columns, error) {
	columns, err := examples.ParseColumns(batch.ColumnsText())
	if n := columns.Features(); err == nil && columns != nil && n != batch.Cols && batch.Sparse == nil {
		err = fmt.Errorf("%w: %d features, its columns have %d", wire.ErrDamaged, batch.Cols, n)
	}
	return columns, err
}

// checkImage returns an error if the image shape of a message differs from that of the run's first message. A message
// without an image shape is assumed to have the same.
func (p *surveyor) checkImage(batch *examples.Rows) error {
	text := batch.ImageText()
	if text == "" || text == p.Image.Text() {
		return nil
	}
	image, err := imageOf(batch)
	if err == nil && p.Image != (examples.Image{}) && image != p.Image {
		err = fmt.Errorf("%w: images of %v, those of the first message of the run are of %v", wire.ErrDamaged, image, p.Image)
	}
	return err
}

// imageOf returns the image shape in a message; zero if it has none.
func imageOf(batch *examples.Rows) (examples.Image, error) {
	image, err := examples.ParseImage(batch.ImageText())
	if n := image.Size(); err == nil && n > 0 && n != batch.Cols {
		err = fmt.Errorf("%w: %d features, its images have %d", wire.ErrDamaged, batch.Cols, n)
	}
	return image, err
}

// newQuarantine returns the quarantine of a survey, which does not write messages again that an earlier survey has written.
//
// A run of a chain need not check the messages of other runs: those that an earlier increment skips were written by its run, see
// [Survey.choose]. So a run only needs to know the messages written since its plan was made. A run not preceded by a version of a chain
// reads the whole topic instead.
func newQuarantine(run *Run) *protocol.Quarantine {
	return &protocol.Quarantine{Client: run.Client, Topic: run.Topics.Examples, From: func(end int64) int64 {
		if end < run.Plan.Since.Quarantine { // the topic was recreated
			return 0
		}
		return run.Plan.Since.Quarantine
	}}
}

// choose returns the messages of a segment that belong on the topic: unusable ones, and usable ones with unknown labels.
// In a full run of a chain most increments belong to earlier runs, which have already written theirs.
func (s *Survey) choose(of *Segment, bad, unknown []schemas.Quarantined) []schemas.Quarantined {
	chain := s.Plan.Chain
	if chain == nil || chain.Update != nil || len(chain.Increments) == 0 {
		return append(bad, unknown...)
	}
	increment := &chain.Increments[of.Increment]
	if increment.Number == chain.Number {
		return append(bad, unknown...)
	}
	return slices.DeleteFunc(bad, func(m schemas.Quarantined) bool { return increment.Skips(m.Partition, m.Offset) })
}

// quarantined returns an examples message in its quarantine format: without key and bytes if some of its rows were
// forgotten.
func (s *Survey) quarantined(number int, m protocol.Message, reason string) schemas.Quarantined {
	q := schemas.Quarantined{Topic: s.Client.Topics.Examples, Partition: number, Offset: m.Offset, Reason: reason, Key: m.Key,
		Bytes: len(m.Value), Trace: m.Trace(), Value: m.Value}
	if s.hasForgotten(number, m.Offset) {
		q.Key, q.Trace, q.Value = "", "", nil
	}
	return q
}

// causeOf returns the publishable reason why a message is unusable: errForgotten if some of its rows were forgotten.
func (s *Survey) causeOf(number int, offset int64, err error) error {
	if err != nil && !concernsRun(err) && s.hasForgotten(number, offset) {
		return errForgotten
	}
	return err
}

// shownCause is causeOf for the error that ends the run, which is public: without values of the message's rows.
func (s *Survey) shownCause(number int, offset int64, err error) error {
	err = s.causeOf(number, offset, err)
	if err == nil || concernsRun(err) {
		return err
	}
	return errors.New(schemas.WithoutValues(err.Error()))
}

// errForgotten replaces the reason for messages with forgotten rows, because reasons often include values of the message.
var errForgotten = errors.New("the message can't be used, and rows of it were forgotten: its bytes, its key and the cause are left out")

// hasForgotten reports whether rows of a message were forgotten.
func (s *Survey) hasForgotten(number int, offset int64) (has bool) {
	s.Plan.Forgotten.In(number, offset, math.MaxInt, func(int, int) { has = true })
	return has
}
