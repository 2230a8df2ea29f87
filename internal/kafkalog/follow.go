package kafkalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Start is a partition to follow with its start offset.
type Start struct {
	Topic       string
	Partition   int
	Offset      int64
	SkipDeleted bool // continue at the first remaining offset, or at the end if messages were lost, as is right for a compacted topic
}

// minShare is the minimum number of bytes that a fetch requests for a partition. Brokers return a larger batch for the
// first partition with data.
const minShare = 64 << 10

// FollowAll reads all committed messages of partitions from their offsets on, without end, with one request at a time to
// each broker. It calls deliver with the index of a partition in starts and the messages of a fetch; without messages and an
// error if the partition has lost messages that were read, and SkipDeleted is set; and with an error that ends the
// partition: a *DeletedError if offsets were deleted and SkipDeleted is not set, ErrUnknownTopic if the topic is gone. It
// retries transient errors. deliver is called concurrently, but in order for the messages of a partition. FollowAll returns
// nil when no partition is left, and otherwise the error of ctx or of the log when that ends.
func (l *Log) FollowAll(ctx context.Context, starts []Start, deliver func(at int, messages []Message, err error)) error {
	sources := make([]*source, len(starts))
	for i, s := range starts {
		sources[i] = &source{log: l, topicPartition: topicPartition{s.Topic, s.Partition}, skipDeleted: s.SkipDeleted, position: s.Offset,
			to: unbounded, deliver: func(messages []Message, err error) { deliver(i, messages, err) }}
	}
	return l.follow(ctx, sources)
}

// follow reads sources until their ends, as FollowAll does.
func (l *Log) follow(ctx context.Context, all []*source) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	waits := map[int32]*reporter{} // of the brokers
	defer func() {
		for _, wait := range waits {
			wait.over(nil)
		}
	}()
	all = slices.DeleteFunc(all, (*source).isOver)
	for backoff := minBackoff; len(all) > 0; backoff = min(2*backoff, maxBackoff) {
		leaders := l.byLeader(ctx, all)
		if ctx.Err() != nil {
			return cmp.Or(context.Cause(l.ctx), ctx.Err())
		}
		began := time.Now()
		round, end := context.WithCancel(ctx)
		var polling sync.WaitGroup
		for broker, wait := range waits {
			if leaders[broker] == nil {
				wait.over(nil)
				delete(waits, broker)
			}
		}
		for broker, of := range leaders {
			wait := waits[broker]
			if wait == nil {
				wait = &reporter{report: l.waiting, what: fmt.Sprintf("read %s[%d]", of[0].topic, of[0].partition)}
				if len(of) > 1 {
					wait.what = fmt.Sprintf("read %d partitions, as %s[%d]", len(of), of[0].topic, of[0].partition)
				}
				waits[broker] = wait
			}
			polling.Go(func() {
				defer end() // leaders of other partitions may also have changed
				l.poll(round, broker, of, wait)
			})
		}
		polling.Wait()
		end()
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		if all = slices.DeleteFunc(all, (*source).isOver); len(all) > 0 {
			pause(ctx, backoff)
		}
		for _, s := range all {
			l.leaders.Delete(s.topic)
		}
	}
	return nil
}

// byLeader groups sources by their leaders. It ends those whose leader can't be found.
func (l *Log) byLeader(ctx context.Context, all []*source) map[int32][]*source {
	of := map[int32][]*source{}
	for _, s := range all {
		err := l.attempt(ctx, s.topic, "find the leaders of "+s.topic, func(ctx context.Context) error {
			leader, err := l.leader(ctx, s.topic, s.partition)
			if errors.Is(err, kafka.LeaderNotAvailable) {
				leader, err = anyBroker, nil // its error is retried
			}
			if err == nil {
				of[leader] = append(of[leader], s)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.end(err)
		}
	}
	return of
}

// poll follows partitions led by a broker, until their ends, or the broker fails, or no longer leads one of them.
func (l *Log) poll(ctx context.Context, broker int32, all []*source, wait *reporter) {
	most := fetchBytes
	if l.Embedded() {
		most = embeddedFetchBytes
	}
	// A broker that is cut off from the others does not report that it no longer leads a partition.
	moved := func(s *source) bool {
		leader, err := l.leader(ctx, s.topic, s.partition)
		return err == nil && leader != broker
	}
	for ctx.Err() == nil && len(all) > 0 && !slices.ContainsFunc(all, moved) {
		bytes := max(most/len(all), minShare)
		if len(all) == 1 && all[0].to-all[0].position == 1 {
			bytes = minFetchBytes
		}
		began := time.Now()
		found, failure := l.fetch(ctx, broker, pollTime, int32(bytes), all...)
		if failure != nil && !transient(failure) && ctx.Err() == nil {
			all[0].end(failure)
		}
		var idle, busy []*source // idle partitions come first in the next request, since the first one's batch may be large
		for i, p := range found {
			s, before := all[i], all[i].position
			switch err := s.accept(ctx, p); {
			case err != nil && transient(err):
				failure = err
			case err != nil && ctx.Err() == nil:
				s.end(err)
			}
			switch {
			case s.isOver():
			case s.position > before:
				busy = append(busy, s)
			default:
				idle = append(idle, s)
			}
		}
		if failure != nil {
			wait.failed(began, failure)
			return
		}
		wait.over(nil)
		all = append(idle, busy...)
	}
}

func transient(err error) bool { return retriable(err) || unknown(err) }

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

// source is one partition being read. Not every offset holds a message: compaction, markers and aborted transactions leave
// gaps. A fetch crosses them, since each batch has its range of offsets.
type source struct {
	log *Log
	topicPartition
	position    int64     // the next offset to fetch
	to          int64     // the end of the range, or unbounded
	skipDeleted bool      // continue at the first remaining offset if the next ones were deleted
	stalled     time.Time // when a range first reached the end of the log early; zero if it has not
	deliver     func(messages []Message, err error)
}

// unbounded is the end of a range without end.
const unbounded = math.MaxInt64

// isOver reports whether the source was read to its end, or has ended with an error.
func (s *source) isOver() bool { return s.position >= s.to }

// end ends the source with an error.
func (s *source) end(err error) {
	position := s.position
	s.position = s.to
	s.deliver(nil, fmt.Errorf("read %s[%d]@%d: %w", s.topic, s.partition, position, s.log.identity.Explain(err)))
}

// accept delivers the messages in the source's partition of a fetch response, and advances past them. p is nil if the response lacks the
// partition.
func (s *source) accept(ctx context.Context, p *kmsg.FetchResponseTopicPartition) error {
	switch {
	case p == nil:
		return kafka.UnknownTopicOrPartition
	case failure(p.ErrorCode) == kafka.OffsetOutOfRange:
		return s.lacks(ctx, false)
	}
	messages, next, err := decode(p, s.position)
	if err != nil {
		return err
	}
	for len(messages) > 0 && messages[len(messages)-1].Offset >= s.to {
		messages = messages[:len(messages)-1]
	}
	switch {
	case next > s.position:
		s.position, s.stalled = min(next, s.to), time.Time{}
	case s.to == unbounded:
	case s.stalled.IsZero():
		s.stalled = time.Now()
	case time.Since(s.stalled) > s.log.stall:
		return s.lacks(ctx, true)
	}
	if len(messages) > 0 {
		s.deliver(messages, nil)
	}
	return nil
}

// lacks determines why the broker has nothing at the position. short means that the log must have it, as the range goes on. lacks returns
// nil if it has moved the position.
func (s *source) lacks(ctx context.Context, short bool) error {
	first, end, err := s.log.Bounds(ctx, s.topic, s.partition)
	switch {
	case err != nil:
		return err
	case s.position < first && s.skipDeleted:
		s.position = first
		return nil
	case s.position > end && s.skipDeleted: // messages that were read are lost
		s.position = end
		s.deliver(nil, nil)
		return nil
	case s.position < first || s.position > end || short && s.position == end:
		return &DeletedError{Topic: s.topic, Partition: s.partition, Wanted: s.position, First: first, End: end}
	}
	return kafka.OffsetNotAvailable // the log has the position, but the broker that served the fetch is behind
}

// Range yields exactly the committed messages with offsets in [from, to), in order. The last value may be an error: that of ctx, or a
// *DeletedError if offsets of the range were deleted. It skips offsets without a record (compacted, aborted, transaction markers). It
// waits only briefly for offsets that are not written yet, so to must not exceed the end returned by Bounds. A goroutine fetches one
// response ahead.
func (l *Log) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		type page struct { // of one fetch
			messages []Message
			err      error
		}
		reading, stop := context.WithCancel(ctx)
		pages, ended := make(chan page), error(nil)
		go func() {
			defer close(pages)
			ended = l.follow(reading, []*source{{log: l, topicPartition: topicPartition{topic, partition}, position: from, to: to,
				deliver: func(messages []Message, err error) {
					select {
					case pages <- page{messages, err}:
					case <-reading.Done():
					}
				}}})
			ended = cmp.Or(ended, reading.Err()) // the last page may have been dropped
		}()
		defer func() {
			stop()
			for range pages { // until the goroutine has ended
			}
		}()
		for p := range pages {
			for _, m := range p.messages {
				if !yield(m, nil) {
					return
				}
			}
			if p.err != nil {
				yield(Message{}, p.err)
				return
			}
		}
		if ended != nil {
			yield(Message{}, ended)
		}
	}
}

const (
	// fetchBytes and embeddedFetchBytes limit a fetch response, unless its first batch is larger. A reader holds up to two
	// responses. Measured with messages of 800 KB: Apache Kafka reads 700 MB/s in fetches of 4 MiB, 450 in fetches of 2, and
	// no more in larger ones; kfake, which grows its responses batch by batch, 280 in fetches of 4 MiB and 350 in fetches of
	// 2.
	fetchBytes         = 4 << 20
	embeddedFetchBytes = 2 << 20
	// minFetchBytes makes a fetch return the first batch only. Brokers return that batch regardless of its size.
	minFetchBytes = 1
	// pollTime is the maximum wait of a fetch at the broker. A new message ends the wait at once.
	pollTime = 500 * time.Millisecond
	// maxBatchBytes limits a record batch after decompression. Brokers accept batches of 1 MiB by default
	// (message.max.bytes), and messages of examples do not compress by a factor of 256.
	maxBatchBytes = 256 << 20
)

// fetch reads batches of partitions led by one broker, up to maxBytes from each, from the position of each source on. If
// there are none it waits for one, at most for poll. The result has nil for partitions that the response lacks. The byte
// limit applies to each partition: with a limit for the request, kfake omits the aborted transactions.
func (l *Log) fetch(ctx context.Context, broker int32, poll time.Duration, maxBytes int32, sources ...*source) (
	[]*kmsg.FetchResponseTopicPartition, error,
) {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(poll.Milliseconds()), 1, math.MaxInt32
	request.IsolationLevel, request.SessionEpoch = 1, -1 // committed messages, without a session
	at := map[topicPartition]int{}
	for i, s := range sources {
		at[s.topicPartition] = i
		of := slices.IndexFunc(request.Topics, func(t kmsg.FetchRequestTopic) bool { return t.Topic == s.topic })
		if of < 0 {
			of = len(request.Topics)
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic = s.topic
			request.Topics = append(request.Topics, topic)
		}
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = int32(s.partition), s.position, maxBytes
		request.Topics[of].Partitions = append(request.Topics[of].Partitions, partition)
	}
	response, err := send[*kmsg.FetchResponse](ctx, l, broker, request)
	if err != nil {
		return nil, err
	}
	if err := failure(response.ErrorCode); err != nil {
		return nil, err
	}
	found := make([]*kmsg.FetchResponseTopicPartition, len(sources))
	for i := range response.Topics {
		t := &response.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if i, asked := at[topicPartition{t.Topic, int(p.Partition)}]; asked {
				found[i] = p
			}
		}
	}
	return found, nil
}

// decode returns the committed messages of a partition of a fetch response from an offset on, and the offset after its
// batches. The messages share the memory of the response. After an error in a batch the next fetch starts with that batch.
func decode(p *kmsg.FetchResponseTopicPartition, from int64) (messages []Message, next int64, err error) {
	if err := failure(p.ErrorCode); err != nil {
		return nil, from, err
	}
	options := kgo.ProcessFetchPartitionOpts{Offset: from, IsolationLevel: kgo.ReadCommitted(), Partition: p.Partition}
	found, next := kgo.ProcessFetchPartition(options, p, decompressor{}, nil)
	switch n := len(found.Records); {
	case found.Err != nil && n == 0:
		return nil, from, found.Err
	case found.Err != nil:
		next = found.Records[n-1].Offset + 1 // kgo skips a batch of an unknown version
	case next == from && len(p.RecordBatches) > 0:
		return nil, from, fmt.Errorf("the batch at offset %d is damaged", from)
	}
	for _, r := range found.Records {
		m := Message{Partition: int(p.Partition), Offset: r.Offset, Key: r.Key, Value: r.Value}
		if r.Timestamp.UnixMilli() >= 0 { // the producers of old clients write −1 for none
			m.Time = r.Timestamp
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, Header(h))
		}
		messages = append(messages, m)
	}
	return messages, next, nil
}

// decompressor decompresses record batches up to maxBatchBytes: 1 MB of zstd can decompress to 30 GB.
type decompressor struct{}

// errUnpacked is the error of a record batch that decompresses to more than maxBatchBytes. Brokers do not reject such a batch: they limit
// the compressed size, and validate records one by one.
var errUnpacked = fmt.Errorf("a record batch decompresses to more than %d bytes", maxBatchBytes)

// Decompress implements [kgo.Decompressor].
func (decompressor) Decompress(source []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return source, nil
	}
	if int(codec) >= len(compress.Codecs) || compress.Codecs[codec] == nil {
		return nil, fmt.Errorf("compression %d is not known", codec)
	}
	r := compress.Codecs[codec].NewReader(bytes.NewReader(source))
	defer r.Close()
	var parts [][]byte // a buffer that grows would take three times the memory
	for whole := 0; ; {
		part := make([]byte, min(max(4*len(source), whole), 16<<20))
		n, err := io.ReadFull(r, part)
		parts, whole = append(parts, part[:n]), whole+n
		switch {
		case whole > maxBatchBytes:
			return nil, errUnpacked
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return slices.Concat(parts...), nil
		case err != nil:
			return nil, err
		}
	}
}
