// Package longpoll waits for messages of many partitions with a shared long poll to each broker.
//
// A broker answers the requests of a connection in order, so a long poll blocks its connection, and it can't be cancelled.
// A waiter that arrives while the shared poll of its broker is in flight therefore gets a poll of its own, and the shared
// one includes it the next time that it is sent after the waiter has been idle for a while. So no wait delays a message of
// another one, busy partitions have requests of their own, and all idle ones share a connection.
package longpoll

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// PollTime is the maximum wait of a fetch at the broker. A new message ends the wait at once.
	PollTime = 500 * time.Millisecond
	// idleTime is the time without messages after which a waiter joins the shared poll. Messages requested by both the shared
	// poll and a poll of its own are sent twice.
	idleTime = 100 * time.Millisecond
	// minPollTime is the minimum wait of a poll that lasts until the shared one is sent again.
	minPollTime = 10 * time.Millisecond
	// manyPolls is the number of polls in flight to a broker from which on waiters gather for gatherTime, and share one poll.
	manyPolls  = 16
	gatherTime = 5 * time.Millisecond
	// leaderTime is the interval of checks whether a broker still leads the requested partitions. A partitioned broker does
	// not know it.
	leaderTime = 30 * time.Second
)

// Options are the dependencies of polls.
type Options struct {
	// Send sends a request to the broker at an address, and returns the response.
	Send func(ctx context.Context, address string, request kafka.Request) (kafka.Response, error)
	// Leads reports whether a broker leads partitions, according to the cached metadata.
	Leads func(ctx context.Context, address string, wanted []Wanted) bool
	// Timeout is the timeout of a request to a broker.
	Timeout time.Duration
}

// Polls is the long polls to the brokers of a cluster. It is safe for concurrent use. Create it with [New].
type Polls struct {
	options Options
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mutex   sync.Mutex
	brokers map[string]*broker // by address
}

// broker is the waiters and polls of a broker.
type broker struct {
	waiters   []*waiter       // in order of arrival
	shared    *poll           // nil if there is none
	asked     map[Place]int64 // offsets in the last request of the shared poll
	ends      time.Time       // time at which the shared poll is sent again, at the latest
	gathering *poll           // poll that is not sent yet; nil if there is none
	polls     int             // polls in flight
}

// poll is a sequence of requests. Polls are identified by address.
type poll struct{ _ byte }

// waiter is a call of Wait.
type waiter struct {
	wanted []Wanted
	since  time.Time
	poll   *poll        // the poll that includes it
	ended  chan outcome // receives one value
}

type outcome struct {
	Result
	err error
}

// Result is the result of a wait.
type Result struct {
	// Sent is the time at which the last request was sent.
	Sent time.Time
	// Found has the requested partitions in order, nil where there is nothing. The error of a partition is in its ErrorCode.
	// Partitions are shared between waiters and must not be modified. Batches may start before the requested offset.
	Found []*Partition
}

// New returns the polls of a cluster. None is sent until there is a waiter.
func New(o Options) *Polls {
	p := &Polls{options: o, brokers: map[string]*broker{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// Close ends all waits and polls. The caller of New ends the requests in flight.
func (p *Polls) Close() {
	p.mutex.Lock()
	p.end()
	p.mutex.Unlock()
	p.running.Wait()
}

// Wait waits until a broker has messages of a partition, or an error. It returns an error if a request fails, and
// kafka.NotLeaderForPartition if another broker leads one of the partitions.
func (p *Polls) Wait(ctx context.Context, address string, wanted []Wanted) (Result, error) {
	w := &waiter{wanted: slices.Clone(wanted), since: time.Now(), poll: new(poll), ended: make(chan outcome, 1)}
	b, err := p.begin(address, w)
	if err != nil {
		return Result{Sent: w.since}, err
	}
	defer p.leave(b, w)
	check := time.NewTicker(leaderTime)
	defer check.Stop()
	for {
		select {
		case o := <-w.ended:
			return o.Result, o.err
		case <-check.C:
			if !p.options.Leads(ctx, address, wanted) {
				return Result{Sent: time.Now()}, kafka.NotLeaderForPartition
			}
		case <-ctx.Done():
			return Result{}, ctx.Err()
		case <-p.ctx.Done():
			return Result{}, net.ErrClosed
		}
	}
}

// begin adds a waiter, and starts its poll.
func (p *Polls) begin(address string, w *waiter) (*broker, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ctx.Err() != nil {
		return nil, net.ErrClosed
	}
	b := p.brokers[address]
	if b == nil {
		b = &broker{}
		p.brokers[address] = b
	}
	b.waiters = append(b.waiters, w)
	switch {
	case b.asks(w.wanted):
		w.poll = b.shared
		return b, nil
	case b.gathering != nil:
		w.poll = b.gathering
		return b, nil
	}
	if b.polls++; b.polls > manyPolls {
		b.gathering = w.poll
	}
	own, gathers := w.poll, b.gathering != nil
	p.running.Go(func() {
		if gathers {
			p.gather(b)
		}
		p.run(address, b, own)
	})
	return b, nil
}

// asks reports whether the shared poll requests the wanted offsets, as when a waiter has returned and waits again. An
// overdue poll may have a broken connection.
func (b *broker) asks(wanted []Wanted) bool {
	if b.shared == nil || time.Now().After(b.ends) {
		return false
	}
	for _, one := range wanted {
		if offset, asked := b.asked[one.Place]; !asked || offset != one.Offset {
			return false
		}
	}
	return true
}

func (p *Polls) leave(b *broker, w *waiter) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if i := slices.Index(b.waiters, w); i >= 0 {
		b.waiters = slices.Delete(b.waiters, i, i+1)
	}
}

// gather waits for further waiters.
func (p *Polls) gather(b *broker) {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	b.gathering = nil
}

// run sends the requests of a poll until it has no waiters.
func (p *Polls) run(address string, b *broker, own *poll) {
	for {
		waiters, wanted, wait := p.next(b, own)
		if len(waiters) == 0 {
			return
		}
		sent := time.Now()
		found, err := p.request(address, wanted, wait)
		p.answer(b, own, waiters, found, outcome{Result{Sent: sent}, err})
	}
}

// next returns the waiters for the next request of a poll, the partitions to request, and the maximum wait at the broker.
func (p *Polls) next(b *broker, own *poll) (waiters []*waiter, wanted []Wanted, wait time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	if p.ctx.Err() != nil {
		return nil, nil, 0
	}
	if b.shared == nil {
		b.shared = own
	}
	for _, w := range b.waiters {
		if b.shared == own && now.Sub(w.since) >= idleTime {
			w.poll = own
		}
		if w.poll == own {
			waiters = append(waiters, w)
		}
	}
	wanted = union(waiters)
	switch left := b.ends.Sub(now); {
	case len(waiters) == 0:
		if b.polls--; b.shared == own {
			b.shared = nil
		}
		return nil, nil, 0
	case b.shared == own:
		b.ends = now.Add(PollTime)
		b.asked = make(map[Place]int64, len(wanted))
		for _, one := range wanted {
			b.asked[one.Place] = one.Offset
		}
	case left >= minPollTime:
		return waiters, wanted, left
	}
	return waiters, wanted, PollTime
}

// union merges the requests of waiters: for each partition the lowest offset and the largest size. The longest waiting
// come first, since only the first batch of a response may exceed the requested size.
func union(waiters []*waiter) []Wanted {
	if len(waiters) == 1 {
		return waiters[0].wanted
	}
	var all []Wanted
	places := map[Place]int{}
	for _, w := range waiters {
		for _, one := range w.wanted {
			at, known := places[one.Place]
			if !known {
				places[one.Place] = len(all)
				all = append(all, one)
				continue
			}
			all[at].Offset, all[at].MaxBytes = min(all[at].Offset, one.Offset), max(all[at].MaxBytes, one.MaxBytes)
		}
	}
	return all
}

// request sends one request, and returns the partitions with batches or an error.
func (p *Polls) request(address string, wanted []Wanted, wait time.Duration) (map[Place]*Partition, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.options.Timeout)
	defer cancel()
	message, err := p.options.Send(ctx, address, Request(wait, wanted...))
	if err != nil {
		return nil, err
	}
	response := message.(*Answer)
	if response.ErrorCode != 0 {
		return nil, kafka.Error(response.ErrorCode)
	}
	found := map[Place]*Partition{}
	for i := range response.Topics {
		t := &response.Topics[i]
		for j := range t.Partitions {
			if one := &t.Partitions[j]; one.ErrorCode != 0 || len(one.RecordSet.Batches) > 0 {
				found[Place{t.Topic, int(one.Partition)}] = one
			}
		}
	}
	return found, nil
}

// answer ends the waits for which a request of a poll has results: all of them if it has failed. These are the waits for
// which it was sent, and those that have joined the poll since.
func (p *Polls) answer(b *broker, own *poll, sentFor []*waiter, found map[Place]*Partition, o outcome) {
	if len(found) == 0 && o.err == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	ended := map[*waiter]bool{}
	asked := make(map[*waiter]bool, len(sentFor))
	for _, w := range sentFor {
		asked[w] = true
	}
	for _, w := range b.waiters {
		if w.poll != own && !asked[w] {
			continue
		}
		some := o.err != nil
		partitions := make([]*Partition, len(w.wanted))
		for i, one := range w.wanted {
			partitions[i] = found[one.Place]
			some = some || partitions[i] != nil
		}
		if some {
			ended[w] = true
			o.Found = partitions
			w.ended <- o // does not block, since each waiter receives one value
		}
	}
	b.waiters = slices.DeleteFunc(b.waiters, func(w *waiter) bool { return ended[w] })
}
