//go:build !race

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"github.com/stagewise/stagewise/internal/assert"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var hostileFor = flag.Duration("hostile", 3*time.Second, "how long TestServeUnderHostileClients goes on")

// residentBytes returns the memory of a process, as the kernel counts it.
func residentBytes(t *testing.T, process int) int64 {
	t.Helper()
	status := assert.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", process)))(t)
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	assert.Need(t, found != nil, "no VmRSS in %s", status)
	return assert.Must(strconv.ParseInt(string(found[1]), 10, 64))(t) << 10
}

// hostile is a kind of client that a server has to bear.
type hostile struct {
	clients int
	do      func(conn net.Conn)
	times   atomic.Int64
}

// The process of serve, with a model of 2,000 classes, answers each honest request while others read nothing of long answers or a few
// bytes at a time, never end their requests, send gzip bombs, rows of a million values, numbers of a megabyte, or go away in the
// middle. Its memory is at most serve.memory above that of the idle process.
func TestServeUnderHostileClients(t *testing.T) {
	long(t)
	const classes, memory, maxBody = 2000, 64 << 20, 4 << 20
	t.Setenv("GOGC", "") // or else garbage is as it says
	t.Setenv("GOMEMLIMIT", "")
	var train strings.Builder
	train.WriteString("label,x,y\n")
	for i := range 2 * classes {
		fmt.Fprintf(&train, "class %d,%d,%d\n", i%classes, i%classes, i%7)
	}
	inFolder(t, map[string]string{"train.csv": train.String(), "c.yaml": fmt.Sprintf(`name: c
examples: {train: [train.csv], label: label, partitions: 1}
prepare: {scale: standard}
stages: [{features: {kind: columns}, passes: 1}]
serve: {memory: %d, max_body: %d, timeout: 5s}
`, memory, maxBody)})
	typed(t, exitDone, "train", "-c", "c.yaml", "--quiet", "--model", "m")
	cmd, _, _ := program(t, "serve", "-c", "c.yaml", "--model", "m", "--listen", "127.0.0.1:0")
	lines, wait := started(t, cmd)
	var address string
	for lines.Scan() {
		if found := regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			if u, err := url.Parse(found[1]); err == nil {
				address = u.Host
			}
			break
		}
	}
	var logs bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines.Scan() {
			logs.WriteString(lines.Text() + "\n")
		}
	})
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		wait()
		reading.Wait()
		assert.True(t, !strings.Contains(logs.String(), "panic"), "the log has %s", &logs)
	}()
	assert.Need(t, address != "", "serve has not said where it listens")

	request := func(body, headers string) string {
		return fmt.Sprintf("POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
			len(body), headers, body)
	}
	long := request(`{"rows":[`+strings.Repeat("[1,2],", 129)+"[1,2]]}", "")       // whose answer has 3 MB
	excessive := request(`{"rows":[`+strings.Repeat("[1,2],", 7999)+"[1,2]]}", "") // 48 kB, whose answer would have 16 million numbers
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for chunk := make([]byte, 1<<20); packed.Len() < 1<<20; { // 1 GB
		assert.Must(w.Write(chunk))(t)
	}
	assert.NoError(t, w.Close())
	bomb := request(packed.String(), "Content-Encoding: gzip\r\n")
	wide := request(`{"rows":[[`+strings.Repeat("1,", maxBody/2-20)+"1]]}", "")
	digits := request(`{"rows":[[`+strings.Repeat("1", maxBody-20)+",1]]}", "")

	deadline := time.Now().Add(*hostileFor)
	kinds := map[string]*hostile{
		"read nothing": {clients: 6, do: func(conn net.Conn) {
			_, err := io.WriteString(conn, long)
			for junk := make([]byte, 4<<10); err == nil; { // until it is cut off: the server's buffer takes some of it
				_, err = conn.Write(junk)
			}
		}},
		"read a few bytes at a time": {clients: 4, do: func(conn net.Conn) {
			_, err := io.WriteString(conn, long)
			beat := time.NewTicker(50 * time.Millisecond)
			defer beat.Stop()
			for few := make([]byte, 100); err == nil; <-beat.C {
				_, err = conn.Read(few)
			}
		}},
		"never end their requests": {clients: 20, do: func(conn net.Conn) {
			_, _ = io.WriteString(conn, excessive[:20_000]) // the next line waits until the server gives up
			_, _ = io.Copy(io.Discard, conn)
		}},
		"answers too long":       {clients: 1, do: func(conn net.Conn) { exchange(conn, excessive) }},
		"bombs":                  {clients: 1, do: func(conn net.Conn) { exchange(conn, bomb) }},
		"rows of many values":    {clients: 1, do: func(conn net.Conn) { exchange(conn, wide) }},
		"numbers of many digits": {clients: 1, do: func(conn net.Conn) { exchange(conn, digits) }},
		"go away": {clients: 2, do: func(conn net.Conn) {
			_, _ = io.WriteString(conn, long) // it goes after the first part of the answer
			_, _ = conn.Read(make([]byte, 4<<10))
		}},
	}
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	var took []time.Duration
	honest := func() {
		began := time.Now()
		response, err := client.Post("http://"+address+"/predict", "application/json", strings.NewReader(`{"rows":[[1,2],[3,4]]}`))
		assert.Need(t, err == nil, "an honest request after %d: %v", len(took), err)
		content, err := io.ReadAll(response.Body)
		response.Body.Close()
		assert.Need(t, err == nil && response.StatusCode == http.StatusOK && bytes.Count(content, []byte(",")) >= 2*classes,
			"an honest request after %d: %d: %.200s, %v", len(took), response.StatusCode, content, err)
		took = append(took, time.Since(began))
	}
	for range 20 {
		honest()
	}
	idle := residentBytes(t, cmd.Process.Pid)
	took = nil
	var others sync.WaitGroup
	for _, kind := range kinds {
		for range kind.clients {
			others.Go(func() {
				for time.Now().Before(deadline) {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						continue // there are too many
					}
					_ = conn.SetDeadline(deadline.Add(time.Second)) // it is open
					kind.do(conn)
					conn.Close()
					kind.times.Add(1)
				}
			})
		}
	}
	var most int64
	for time.Now().Before(deadline) {
		honest()
		most = max(most, residentBytes(t, cmd.Process.Pid))
	}
	others.Wait()
	slices.Sort(took)
	var done []string
	for name, kind := range kinds {
		done = append(done, fmt.Sprintf("%d × %s", kind.times.Load(), name))
	}
	slices.Sort(done)
	t.Logf("%v: %d honest requests, median %v, p99 %v, slowest %v; %d MiB idle, at most %d MiB more, serve.memory is %d; %s", *hostileFor,
		len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1], idle>>20, (most-idle)>>20, memory>>20, strings.Join(done, ", "))
	limit := idle + memory
	if *hostileFor < time.Minute {
		limit += memory / 4 // the kernel may count pages of the runtime late, and on other machines there are more threads
	}
	assert.True(t, most <= limit, "the process had %d bytes, expected at most %d: %d when idle, and serve.memory", most, limit, idle)
}

// exchange sends a request, and reads the answer to it, if there is one.
func exchange(conn net.Conn, request string) {
	_, _ = io.WriteString(conn, request) // the server may refuse it before its end
	if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
	}
}
