package score

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// feed follows the partitions of a topic that have readers, with one subscription for all of them.
type feed struct {
	log   protocol.Log
	topic string

	joined  chan struct{} // receives a value after a reader has joined
	mutex   sync.Mutex
	readers map[int]*reader // by partition
}

// reader receives the messages of a partition from an offset on.
type reader struct {
	next    int64
	arrived chan arrival
	done    <-chan struct{} // closed when it no longer receives
}

// arrival is a message, or the error that ends a reader.
type arrival struct {
	message protocol.Message
	err     error
}

func newFeed(log protocol.Log, topic string) *feed {
	return &feed{log: log, topic: topic, joined: make(chan struct{}, 1), readers: map[int]*reader{}}
}

// join makes the messages of a partition arrive on the returned channel until ctx ends.
func (f *feed) join(ctx context.Context, partition int, from int64) <-chan arrival {
	r := &reader{from, make(chan arrival), ctx.Done()}
	f.mutex.Lock()
	f.readers[partition] = r
	f.mutex.Unlock()
	select {
	case f.joined <- struct{}{}:
	default:
	}
	return r.arrived
}

// current returns the readers and where they are.
func (f *feed) current() (readers map[int]*reader, positions []protocol.Position) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for partition, r := range f.readers {
		select {
		case <-r.done:
			delete(f.readers, partition)
		default:
			positions = append(positions, protocol.Position{Topic: f.topic, Partition: partition, Offset: r.next, Compacted: true})
		}
	}
	return maps.Clone(f.readers), positions
}

// run delivers messages until ctx ends.
func (f *feed) run(ctx context.Context) error {
	for ctx.Err() == nil {
		readers, positions := f.current()
		if len(positions) == 0 {
			select {
			case <-f.joined:
			case <-ctx.Done():
			}
			continue
		}
		subscription := f.log.Subscribe(ctx, f.joined, positions...)
		err := f.deliver(ctx, subscription, readers)
		subscription.Close()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// deliver returns nil when the readers have changed.
func (f *feed) deliver(ctx context.Context, subscription protocol.Subscription, readers map[int]*reader) error {
	for {
		d, late, err := subscription.Next(ctx, time.Hour)
		lost, isLost := errors.AsType[*kafkalog.DeletedError](err)
		switch {
		case isLost: // expired messages are skipped
			d = &protocol.Delivery{Partition: lost.Partition}
		case err != nil:
			return err
		case d == nil && late:
			continue
		case d == nil:
			return nil
		}
		r := readers[d.Partition]
		select {
		case r.arrived <- arrival{d.Message, err}:
			r.next = d.Offset + 1
		case <-r.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
