package serve

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
)

var hostileFor = flag.Duration("hostile", 3*time.Second, "how long TestHostileClients goes on")

// heapBytes returns the live bytes of the heap at the last garbage collection, and its size including garbage since.
func heapBytes() (live, all int64) {
	samples := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(samples)
	return int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64())
}

// raw is an encoded request.
func raw(body []byte, headers string) []byte {
	return append(fmt.Appendf(nil,
		"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n", len(body), headers), body...)
}

// While some clients read nothing of answers with 2,000 classes, others read all of them, send decompression bombs, or
// never complete their requests, another client always gets an answer, and memory stays within its limit.
func TestHostileClients(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	for name, maxBody := range map[string]option.Bytes{"in the proportion of the defaults": 4 << 20,
		"with bodies of a quarter of the memory": 16 << 20} {
		t.Run(name, func(t *testing.T) { withHostileClients(t, maxBody) })
	}
}

func withHostileClients(t *testing.T, maxBody option.Bytes) {
	const classes = 2000
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the default, on which the limit of garbage below depends, whatever GOGC is
	o := Defaults()
	o.Memory, o.MaxBody, o.Timeout = 64<<20, maxBody, 5*time.Second
	m := newModelOf(t, manyClasses(classes), 3, 2, nil, layout.MissingError)
	address := listening(t, o, Fixed(m))
	_, long := someRows(t, 130) // with an answer of 3 MB
	_, shorter := someRows(t, 100)
	_, tooLong := someRows(t, 8000)        // of 69 kB, with an answer of 16 million numbers
	bomb := packed(t, make([]byte, 1<<30)) // of 1 MB
	deadline := time.Now().Add(*hostileFor)
	var others sync.WaitGroup
	var whole, cut, refused, bombs, excessive, slow atomic.Int64
	runtime.GC()
	base, _ := heapBytes()
	var live, all int64
	each := func(clients int, do func(conn net.Conn)) {
		for range clients {
			others.Go(func() {
				for time.Now().Before(deadline) {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						continue // too many connections
					}
					_ = conn.SetDeadline(deadline.Add(time.Second)) // it is open
					do(conn)
					conn.Close()
				}
			})
		}
	}
	each(8, func(conn net.Conn) { // reads nothing until it is aborted
		_, err := conn.Write(raw(long, ""))
		for junk := make([]byte, 4<<10); err == nil; { // the server's buffer accepts some of it
			_, err = conn.Write(junk)
		}
		slow.Add(1)
	})
	each(2, func(conn net.Conn) { // reads everything
		_, _ = conn.Write(raw(shorter, "")) // checked below
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return
		}
		if response.StatusCode != http.StatusOK {
			refused.Add(1)
		} else if _, err := io.Copy(io.Discard, response.Body); err != nil {
			cut.Add(1)
		} else {
			whole.Add(1)
		}
	})
	each(1, func(conn net.Conn) {
		_, _ = conn.Write(raw(bomb, "Content-Encoding: gzip\r\n")) // the server does not read all of it
		if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && response.StatusCode == http.StatusRequestEntityTooLarge {
			bombs.Add(1)
		}
	})
	each(20, func(conn net.Conn) { // never completes its request
		_, _ = conn.Write(raw(tooLong, "")[:20_000])
		_, _ = io.Copy(io.Discard, conn) // until the server gives up
	})
	each(1, func(conn net.Conn) {
		_, _ = conn.Write(raw(tooLong, "")) // as above
		if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && response.StatusCode == http.StatusRequestEntityTooLarge {
			excessive.Add(1)
		}
	})
	asking := &http.Client{Timeout: 20 * time.Second}
	defer asking.CloseIdleConnections()
	var took []time.Duration
	for time.Now().Before(deadline) {
		began := time.Now()
		response, err := asking.Post("http://"+address+"/predict", typeJSON, strings.NewReader(`{"rows":[[1,2],[3,4]]}`))
		if err != nil {
			t.Fatalf("somebody else after %d answers: %v", len(took), err)
		}
		content, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || bytes.Count(content, []byte(",")) < 2*classes {
			t.Fatalf("somebody else after %d answers: %d: %.200s, %v", len(took), response.StatusCode, content, err)
		}
		took = append(took, time.Since(began))
		nowLive, nowAll := heapBytes()
		live, all = max(live, nowLive-base), max(all, nowAll-base)
	}
	others.Wait()
	slices.Sort(took)
	t.Logf("%v: somebody else had %d answers, median %v, p99 %v; the heap had at most %d MiB of %d, with garbage %d; %d "+
		"answers were read whole, %d cut off, %d refused; %d bombs, %d answers that were too long; %d times nothing was read",
		*hostileFor, len(took), took[len(took)/2], took[len(took)*99/100], live>>20, o.Memory>>20, all>>20, whole.Load(), cut.Load(),
		refused.Load(), bombs.Load(), excessive.Load(), slow.Load())
	if most := int64(o.Memory); live > most || all > 2*most { // garbage collection starts when the heap is twice the live size
		t.Errorf("the heap had %d bytes more than before, with garbage %d, expected at most %d", live, all, most)
	}
}
