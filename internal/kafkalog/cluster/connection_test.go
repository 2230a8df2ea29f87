package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// A connection is not reused once the broker may close it: after a long idle time, or when its login has expired.
func TestStaleConnectionsAreNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		session time.Duration // 0: unlimited
		busy    time.Duration // until it is idle
		idle    time.Duration
		used    bool
	}{
		"fresh":                      {used: true},
		"idle for a while":           {idle: idleTime - time.Second, used: true},
		"idle for long":              {idle: idleTime + time.Second},
		"within its session":         {session: time.Minute, idle: 59 * time.Second, used: true},
		"after its session":          {session: time.Minute, idle: 61 * time.Second},
		"busy when its session ends": {session: time.Minute, busy: 61 * time.Second},
		"busy for long":              {busy: 2 * idleTime, used: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer there.Close()
				dialed := 0
				l := New(Options{Dial: func(context.Context, string, string) (net.Conn, error) {
					dialed++
					return nil, net.ErrClosed
				}})
				conn := &connection{Conn: protocol.NewConn(here, "test"), address: "a:1"}
				if c.session > 0 {
					conn.ends = time.Now().Add(c.session)
				}
				time.Sleep(c.busy) // in fake time
				l.give(conn)
				time.Sleep(c.idle)
				got, err := l.acquire(t.Context(), "a:1", &fetch.Request{})
				if used := got == conn && err == nil; used != c.used || dialed > 0 == used {
					t.Errorf("used %v, want %v; %d connections were opened", used, c.used, dialed)
				}
				if err == nil {
					l.running.Done()
					got.Close()
				}
				l.Close()
			})
		})
	}
}

// A write that the broker has received is not abandoned when its context ends: the broker may apply it later, when its
// caller has checked the end of the partition, and has written the same again. Other requests, and unavailable brokers,
// block nobody.
func TestWriteIsNotAbandoned(t *testing.T) {
	write := &produce.Request{Acks: -1}
	for name, c := range map[string]struct {
		request  protocol.Message
		answers  time.Duration // after its context has ended
		ended    bool          // its context has ended before it is sent
		returns  time.Duration // after its context has ended
		answered bool
	}{
		"write":                   {request: write, answers: time.Second, returns: time.Second, answered: true},
		"write without an answer": {request: write, answers: time.Minute, returns: writeTime},
		"write after its context": {request: write, ended: true},
		"read":                    {request: &fetch.Request{}, answers: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				l := New(Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }})
				conn := &connection{Conn: protocol.NewConn(here, "test"), address: "a:1"}
				conn.SetVersions(map[protocol.ApiKey]int16{protocol.Produce: 3, protocol.Fetch: 4})
				l.give(conn)
				ctx, cancel := context.WithCancel(t.Context())
				sent := false
				var broker sync.WaitGroup
				broker.Go(func() {
					_, correlation, _, _, err := protocol.ReadRequest(there)
					if err != nil {
						return
					}
					sent = true
					cancel()
					time.Sleep(c.answers) // in fake time
					var answer protocol.Message = &produce.Response{}
					version := int16(3)
					if _, reads := c.request.(*fetch.Request); reads {
						answer, version = &fetch.Response{}, 4
					}
					_ = protocol.WriteResponse(there, version, correlation, answer)
				})
				if c.ended {
					cancel()
				}
				began := time.Now()
				answer, err := l.Send(ctx, "a:1", c.request)
				if took := time.Since(began); took != c.returns {
					t.Errorf("returned %v after its context had ended, want %v", took, c.returns)
				}
				there.Close()
				l.Close()
				broker.Wait()
				if answered := answer != nil; answered != c.answered || !answered && !errors.Is(err, context.Canceled) || sent == c.ended {
					t.Errorf("answer %v, %v; sent: %v", answer, err, sent)
				}
			})
		})
	}
}

// Connections opened by a burst of requests are closed by the first request after they were idle for a while.
func TestSpareConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		defer l.Close()
		connect := func() *connection {
			here, there := net.Pipe()
			t.Cleanup(func() { there.Close() })
			return &connection{Conn: protocol.NewConn(here, "test"), address: "a:1"}
		}
		used := connect()
		for range 100 {
			l.give(connect())
		}
		time.Sleep(spareTime + time.Second) // in fake time
		l.give(connect())
		l.give(used)
		if n := len(l.idle["a:1"]); n != 2 {
			t.Errorf("%d connections are kept, expected the two that were used", n)
		}
	})
}

// Concurrent short requests share one connection, sequentially. A request that brokers hold, or answer slowly, delays
// others only briefly.
func TestShortRequestsShareAConnection(t *testing.T) {
	for name, c := range map[string]struct {
		request protocol.Message // n concurrent ones
		n       int
		answers time.Duration // delay of the broker's response to each
		opened  int64
		took    time.Duration
	}{
		"short": {request: &metadata.Request{}, n: 5, answers: 10 * time.Millisecond, opened: 1, took: 50 * time.Millisecond},
		"slow":  {request: &metadata.Request{}, n: 5, answers: time.Second, opened: 5, took: time.Second + shortTime},
		"held":  {request: &fetch.Request{}, n: 5, answers: time.Second, opened: 5, took: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var brokers sync.WaitGroup
				var opened atomic.Int64
				l := New(Options{Dial: func(context.Context, string, string) (net.Conn, error) {
					opened.Add(1)
					here, there := net.Pipe()
					brokers.Go(func() {
						for {
							version, correlation, _, request, err := protocol.ReadRequest(there)
							if err != nil {
								return
							}
							var answer protocol.Message
							switch request.(type) {
							case *apiversions.Request:
								answer = &apiversions.Response{ApiKeys: []apiversions.ApiKeyResponse{{ApiKey: int16(protocol.Metadata), MaxVersion: 1},
									{ApiKey: int16(protocol.Fetch), MaxVersion: 4}}}
							case *metadata.Request:
								time.Sleep(c.answers) // in fake time
								answer = &metadata.Response{}
							default:
								time.Sleep(c.answers)
								answer = &fetch.Response{}
							}
							if protocol.WriteResponse(there, version, correlation, answer) != nil {
								return
							}
						}
					})
					return here, nil
				}})
				began := time.Now()
				var sent sync.WaitGroup
				for range c.n {
					sent.Go(func() {
						if _, err := l.Send(t.Context(), "a:1", c.request); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				sent.Wait()
				if took := time.Since(began); opened.Load() != c.opened || took != c.took {
					t.Errorf("%d connections, %v; expected %d, %v", opened.Load(), took, c.opened, c.took)
				}
				l.Close()
				brokers.Wait()
			})
		})
	}
}
