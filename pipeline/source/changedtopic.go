package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// ChangedTopicError means that a followed topic no longer has the last message that was read. It has lost messages, as in
// an unclean leader election, or was recreated. Only the operator knows which.
type ChangedTopicError struct {
	Topic     string
	Partition int
	Last      int64  // last offset read
	Why       string // evidence of the change
}

// Error includes the options of the operator.
func (e *ChangedTopicError) Error() string {
	return fmt.Sprintf("%s[%d] no longer has the message read last, at offset %d: %s. It has lost messages, or was recreated. "+
		"Set examples.on_changed_topic to %s to continue after that offset, or to %s to read it from its beginning as another "+
		"topic. Until then it is not ingested",
		e.Topic, e.Partition, e.Last, e.Why, ingest.ChangedTopicBehind, ingest.ChangedTopicAnew)
}

// decided reports whether the operator has configured what to do if the topic has changed.
func (f *Following) decided() bool {
	return f.Job.Examples.OnChangedTopic == ingest.ChangedTopicBehind || f.Job.Examples.OnChangedTopic == ingest.ChangedTopicAnew
}

// checkLast returns a *ChangedTopicError if a partition of a topic that has later messages does not have the last one that was read. Its
// deletion by retention is no change.
func (f *Following) checkLast(ctx context.Context, topic string, read schemas.TopicPosition) error {
	if read.Next == 0 || read.Last == "" {
		return nil
	}
	bounds := coverage.Span{Partition: read.Partition, To: read.Next}
	last := coverage.Mark{Partition: read.Partition, Offset: read.Next - 1, Checksum: read.Last}
	found, err := protocol.Still(ctx, f.Log, topic, bounds, last)
	if ingest.IsGap(err) { // it was read, so nothing is missing
		return nil
	}
	if found == protocol.FoundOther {
		return &ChangedTopicError{Topic: topic, Partition: read.Partition, Last: read.Next - 1, Why: "another message is there"}
	}
	return err
}

// checksumAt returns the checksum that identifies the message of the topic at an offset; "" if there is none, because it has expired or
// was compacted, or if only an archive has it.
func (f *Following) checksumAt(ctx context.Context, topic string, partition int, offset int64) (checksum string, err error) {
	for m, err := range f.Between(ctx, topic, partition, offset, offset+1) {
		if errors.As(err, new(*kafkalog.DeletedError)) || ingest.IsGap(err) {
			return "", nil
		}
		return protocol.MarkOf(partition, m).Checksum, err
	}
	return "", nil
}

// proven returns the position from which to read a partition of the topic: read, if it still has the last message. Otherwise changed is
// set, and if the operator has configured what to do, no offset before the position is read twice.
func (f *Following) proven(ctx context.Context, topic string, bounds []coverage.Span, read schemas.TopicPosition) (
	_ schemas.TopicPosition, changed *ChangedTopicError, err error) {
	if read.Next == 0 {
		return read, nil, nil
	}
	end, why := int64(0), fmt.Sprintf("it has %d partitions", len(bounds))
	if read.Partition < len(bounds) {
		end = bounds[read.Partition].To
		why = fmt.Sprintf("it ends at offset %d", end)
	}
	has := end >= read.Next
	if !has && read.Partition < len(bounds) && f.decided() {
		// Check again: a leader that was just elected may report too low an end. A read waits for the leader.
		has = true
		for _, err := range f.Between(ctx, topic, read.Partition, read.Next-1, read.Next) {
			if has = err == nil; err != nil && !errors.As(err, new(*kafkalog.DeletedError)) {
				return read, nil, err
			}
		}
	}
	changed = &ChangedTopicError{Topic: topic, Partition: read.Partition, Last: read.Next - 1, Why: why}
	if has {
		if err := f.checkLast(ctx, topic, read); !errors.As(err, &changed) {
			return read, nil, err
		}
	}
	if !f.decided() {
		return read, changed, nil
	}
	if read.Next, read.Last = min(read.Next, end), ""; read.Next > 0 {
		read.Last, err = f.checksumAt(ctx, topic, read.Partition, read.Next-1)
	}
	return read, changed, err
}
