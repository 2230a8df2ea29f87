package cluster

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// A connection is not used again once the broker may close it: when it was idle for long, or its login has run out.
func TestStaleConnectionsAreNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		session time.Duration // 0: without end
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
				time.Sleep(c.busy) // of the test's own clock
				l.give(conn)
				time.Sleep(c.idle)
				got, err := l.take(t.Context(), "a:1")
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
