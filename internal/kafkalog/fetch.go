package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/stagewise/stagewise/internal/kafkalog/longpoll"
	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

const (
	// fetchBytes and embeddedFetchBytes limit a fetch response, unless its first batch is larger. A reader holds up to two
	// responses. Measured with messages of 800 KB: Apache Kafka reads 700 MB/s in fetches of 4 MiB, 450 in fetches of 2, and
	// no more in larger ones; kfake, which grows its responses batch by batch, 280 in fetches of 4 MiB and 350 in fetches of
	// 2.
	fetchBytes         = 4 << 20
	embeddedFetchBytes = 2 << 20
	// minFetchBytes makes a fetch return the first batch only. Brokers return that batch whatever its size.
	minFetchBytes = 1
	pollTime      = longpoll.PollTime
)

// batch is a decoded record batch: the messages from the requested offset on, and the offset after its range.
type batch struct {
	next     int64
	messages []Message
}

// fetch reads batches starting with the one that covers offset: at least one, and as many as fit into maxBytes. If there
// is none it waits for one, at most for poll. It does not use kafka.Client.Fetch, which drops the list of aborted
// transactions.
func (l *Log) fetch(ctx context.Context, topic string, partition int, offset int64, maxBytes int32, poll time.Duration) ([]batch, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wanted := longpoll.Wanted{Place: longpoll.Place{Topic: topic, Partition: partition}, Offset: offset, MaxBytes: maxBytes}
	message, err := l.cluster.RoundTrip(ctx, l.client.Addr, longpoll.Request(poll, wanted))
	if err != nil {
		return nil, err
	}
	response := message.(*longpoll.Answer)
	if response.ErrorCode != 0 {
		return nil, kafka.Error(response.ErrorCode)
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return nil, kafka.UnknownTopicOrPartition
	}
	return found(&response.Topics[0].Partitions[0], offset)
}

// found decodes one partition of a fetch response, from an offset on.
func found(p *longpoll.Partition, from int64) ([]batch, error) {
	if p.ErrorCode != 0 {
		return nil, kafka.Error(p.ErrorCode)
	}
	return decode(p.RecordSet, p.AbortedTransactions, int(p.Partition), from)
}

// decode copies the messages from an offset on, except those of aborted transactions. Like Kafka's consumer it drops a
// producer's records from the first offset of its aborted transaction to its abort marker. After an error in a batch the
// next fetch starts with that batch.
func decode(set recordbatch.Set, aborted []fetchapi.ResponseTransaction, partition int, from int64) ([]batch, error) {
	aborted = slices.SortedFunc(slices.Values(aborted), func(a, b fetchapi.ResponseTransaction) int { // the list is shared
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	aborting := map[int64]bool{} // by producer id
	var batches []batch
	var err error
	for _, e := range set.Batches {
		for len(aborted) > 0 && aborted[0].FirstOffset <= e.Base() {
			aborting[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		b := batch{next: from}
		var headed bool
		headed, err = e.Headed()
		switch {
		case err != nil:
		case !headed:
			err = b.read(e, partition, from)
		case e.Has(recordbatch.Marker):
			if abort, ok := e.Aborts(); ok && abort {
				delete(aborting, e.Producer())
			}
			b.next = e.Next()
		case e.Has(recordbatch.Transactional) && aborting[e.Producer()]:
			b.next = e.Next()
		case e.Has(recordbatch.Compressed):
			err = b.read(e, partition, from)
			for i, m := range b.messages {
				b.messages[i].Time = e.Time(m.Time.UnixMilli())
			}
			b.next = e.Next()
		default:
			b.messages, err = plain(e, partition, from)
			b.next = e.Next()
		}
		if err != nil {
			break
		}
		batches = append(batches, b)
	}
	if len(batches) > 0 {
		return batches, nil
	}
	return nil, err
}

// read decodes the messages of a batch from an offset on with kafka-go. It sets next to the offset after its last record.
func (b *batch) read(e recordbatch.Batch, partition int, from int64) error {
	records, err := e.Records()
	if err != nil {
		return err
	}
	for {
		record, err := records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b.next = record.Offset + 1
		m := Message{Partition: partition, Offset: record.Offset, Time: recordbatch.TimeOf(record.Time.UnixMilli())}
		wanted := record.Offset >= from
		if m.Key, err = recordbatch.Take(record.Key, wanted); err != nil {
			return err
		}
		if m.Value, err = recordbatch.Take(record.Value, wanted); err != nil {
			return err
		}
		if !wanted {
			continue
		}
		for _, h := range record.Headers {
			m.Headers = append(m.Headers, Header{h.Key, h.Value})
		}
		b.messages = append(b.messages, m)
	}
}
