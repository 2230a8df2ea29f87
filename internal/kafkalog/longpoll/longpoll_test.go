package longpoll

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// fake is a broker with batches of one message each.
type fake struct {
	mutex    sync.Mutex
	ends     map[Place]int64
	appended chan struct{} // closed by the next append
	err      error         // of all requests
	requests int
	running  int // number of requests held
	most     int // maximum of running
}

func newFake() *fake { return &fake{ends: map[Place]int64{}, appended: make(chan struct{})} }

func (f *fake) append(p Place) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.ends[p]++
	close(f.appended)
	f.appended = make(chan struct{})
}

func (f *fake) fail(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.err = err
	close(f.appended)
	f.appended = make(chan struct{})
}

// look returns the current response to a fetch, nil if the fetch must wait.
func (f *fake) look(r *fetchapi.Request) (answer *Answer, appended chan struct{}, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var found Answer
	any := false
	for _, t := range r.Topics {
		topic := Topic{Topic: t.Topic}
		for _, p := range t.Partitions {
			one := Partition{Partition: p.Partition}
			if end := f.ends[Place{t.Topic, int(p.Partition)}]; p.FetchOffset < end {
				any = true
				one.RecordSet.Batches = []recordbatch.Batch{binary.BigEndian.AppendUint64(nil, uint64(p.FetchOffset))}
			}
			topic.Partitions = append(topic.Partitions, one)
		}
		found.Topics = append(found.Topics, topic)
	}
	if any {
		answer = &found
	}
	return answer, f.appended, f.err
}

func (f *fake) send(ctx context.Context, _ string, request kafka.Request) (kafka.Response, error) {
	r := request.(*fetchapi.Request)
	f.mutex.Lock()
	f.requests++
	f.running++
	f.most = max(f.most, f.running)
	f.mutex.Unlock()
	defer func() {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		f.running--
	}()
	timeout := time.After(time.Duration(r.MaxWaitTime) * time.Millisecond)
	for {
		answer, appended, err := f.look(r)
		switch {
		case err != nil:
			return nil, err
		case answer != nil:
			return answer, nil
		}
		select {
		case <-appended:
		case <-timeout:
			return &Answer{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// count returns the number of requests since the last call, and the maximum held concurrently.
func (f *fake) count() (requests, most int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	requests, most = f.requests, f.most
	f.requests, f.most = 0, f.running
	return requests, most
}

// during calls test with polls of a fake broker in fake time.
func during(t *testing.T, test func(t *testing.T, f *fake, p *Polls)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := New(Options{Send: f.send, Timeout: time.Minute, Leads: func(context.Context, string, []Wanted) bool { return true }})
		defer p.Close()
		test(t, f, p)
	})
}

// follow waits for the partitions of a list in turn, and sends each that has a message to a channel.
func follow(ctx context.Context, p *Polls, places []Place, found chan<- Place) {
	wanted := make([]Wanted, len(places))
	for i, place := range places {
		wanted[i] = Wanted{Place: place, MaxBytes: 1 << 20}
	}
	for {
		r, err := p.Wait(ctx, "a:1", wanted)
		if err != nil {
			return
		}
		for i, one := range r.Found {
			if one == nil {
				continue
			}
			// A batch before the requested offset is for another waiter.
			if got := int64(binary.BigEndian.Uint64(one.RecordSet.Batches[0])); got == wanted[i].Offset {
				wanted[i].Offset++
				found <- places[i]
			}
		}
	}
}

// Idle waiters send two requests a second over one connection, whatever their number and start times.
func TestIdleWaitsShareAPoll(t *testing.T) {
	during(t, func(t *testing.T, f *fake, p *Polls) {
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		for i := range 300 {
			time.Sleep(time.Duration(i%7) * time.Millisecond) // in fake time
			following.Go(func() { follow(ctx, p, []Place{{"t", i}, {"both", 0}}, nil) })
		}
		_, most := f.count()
		time.Sleep(3 * PollTime)
		f.count()
		time.Sleep(10 * time.Second)
		if requests, idle := f.count(); requests > 21 || idle != 1 {
			t.Errorf("%d requests in 10 s, %d at once", requests, idle)
		}
		// A poll with gathered waiters lasts until the shared one has included them: up to PollTime after they were idle.
		if most > 2*manyPolls+int((PollTime+idleTime)/gatherTime) {
			t.Errorf("%d requests at once while they began", most)
		}
		cancel()
		following.Wait()
		time.Sleep(PollTime)
		if f.count(); f.running > 0 {
			t.Errorf("%d requests for nobody", f.running)
		}
	})
}

// A waiter that stops and starts again at the same position sends no further request.
func TestWaitsBeginAgain(t *testing.T) {
	during(t, func(t *testing.T, f *fake, p *Polls) {
		found := make(chan Place, 10)
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*PollTime/2)
			follow(ctx, p, []Place{{"t", 0}, {"t", 1}}, found)
			cancel()
		}
		if requests, most := f.count(); requests > 150 || most != 1 {
			t.Errorf("%d requests in %v, %d at once", requests, 75*PollTime, most)
		}
		go f.append(Place{"t", 1})
		ctx, cancel := context.WithTimeout(t.Context(), PollTime/2)
		defer cancel()
		follow(ctx, p, []Place{{"t", 0}, {"t", 1}}, found)
		if len(found) != 1 {
			t.Errorf("%d messages came", len(found))
		}
	})
}

// A message is delivered at once, whatever other waits there are, once, and in order, also for partitions with several
// followers.
func TestNoWaitDelaysAnother(t *testing.T) {
	for seed := range uint64(20) {
		during(t, func(t *testing.T, f *fake, p *Polls) {
			random := rand.New(rand.NewPCG(seed, 0))
			ctx, cancel := context.WithCancel(t.Context())
			var following sync.WaitGroup
			found := make(chan Place, 1000)
			followed := map[Place]int{} // number of followers
			for range 1 + random.IntN(2*manyPolls) {
				var places []Place
				for range 1 + random.IntN(5) {
					if one := (Place{"t", random.IntN(50)}); !slices.Contains(places, one) {
						places = append(places, one)
						followed[one]++
					}
				}
				following.Go(func() { follow(ctx, p, places, found) })
				time.Sleep(rand.N(20 * time.Millisecond))
			}
			for range 300 {
				one := Place{"t", random.IntN(50)}
				before := time.Now()
				f.append(one)
				for range followed[one] {
					if got := <-found; got != one {
						t.Fatalf("seed %d: a message of %v came, expected one of %v", seed, got, one)
					}
				}
				if took := time.Since(before); took > gatherTime {
					t.Fatalf("seed %d: a message took %v", seed, took)
				}
				time.Sleep([]time.Duration{0, time.Microsecond, 3 * time.Millisecond, idleTime, PollTime + 1}[random.IntN(5)])
			}
			synctest.Wait()
			if len(found) > 0 {
				t.Errorf("seed %d: %d messages came twice", seed, len(found))
			}
			cancel()
			following.Wait()
		})
	}
}

// A failed request is an error for all of its waiters, with the time of the last contact. A broker that is no longer the
// leader is detected.
func TestFailuresEndWaits(t *testing.T) {
	broken := errors.New("broken")
	during(t, func(t *testing.T, f *fake, p *Polls) {
		results := make(chan error, 3)
		for i := range 3 {
			go func() {
				r, err := p.Wait(t.Context(), "a:1", []Wanted{{Place: Place{"t", i}}})
				if since := time.Since(r.Sent); since > PollTime {
					t.Errorf("the error is %v old", since)
				}
				results <- err
			}()
		}
		time.Sleep(time.Minute)
		f.fail(broken)
		for range 3 {
			if err := <-results; !errors.Is(err, broken) {
				t.Errorf("error %v", err)
			}
		}
		f.fail(nil)
		p.options.Leads = func(context.Context, string, []Wanted) bool { return false }
		if _, err := p.Wait(t.Context(), "a:1", []Wanted{{Place: Place{"t", 0}}}); !errors.Is(err, kafka.NotLeaderForPartition) {
			t.Errorf("error %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			p.Close()
		}()
		if _, err := p.Wait(t.Context(), "a:1", []Wanted{{Place: Place{"t", 0}}}); err == nil {
			t.Error("a wait outlives the polls")
		}
	})
}
