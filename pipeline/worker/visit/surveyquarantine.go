package visit

import (
	"errors"
	"math"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

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
