package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// counting counts the connections that brokers accept.
type counting struct {
	net.Listener
	accepted *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

// Processes that wait for messages, or follow them, open no connections while nothing fails.
func TestProcessesThatFollowOpenNoConnections(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	accepted := new(atomic.Int64)
	cluster := valueOf(kfake.NewCluster(kfake.NumBrokers(3), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return counting{l, accepted}, err
	})))(t)
	t.Cleanup(cluster.Close)
	on := trainOn(t, cluster, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended, commands := make(chan int), [][]string{{"run"}, {"score"}, {"page"}, {"serve", "--listen", "127.0.0.1:0"}}
	for _, command := range commands {
		go func() { ended <- execute(ctx, append(command, on...), io.Discard, io.Discard) }()
	}
	t.Cleanup(func() {
		stop()
		for range commands {
			if code := <-ended; code != exitDone && code != exitInterrupted {
				t.Errorf("a process ended with %d", code)
			}
		}
	})

	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: cluster.ListenAddrs()}))(t)
	defer log.Close()
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "blobs.predictions", Partitions: 1}))
	examples, predictions := log.Range("blobs.examples", 0, 0, 1), make(chan error)
	defer examples.Close()
	go log.FollowAll(t.Context(), []kafkalog.Start{{Topic: "blobs.predictions"}}, func(_ int, _ *kafkalog.Message, err error) bool {
		predictions <- err
		return err == nil
	})
	message := valueOf(examples.Next(t.Context()))(t)
	// Each message is followed by its prediction. The processes are warm once none of them has opened a connection for long enough.
	const long, pause = 5 * time.Second, time.Second / 30
	tick := time.NewTicker(pause)
	defer tick.Stop()
	before, since := accepted.Load(), time.Now()
	for began := since; time.Since(since) < long; <-tick.C {
		valueOf(log.Append(t.Context(), "blobs.examples", 0, message))(t)
		if err := <-predictions; err != nil {
			t.Fatal(err)
		}
		if now := accepted.Load(); now != before {
			before, since = now, time.Now()
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d connections in %v, and no end of it", before, time.Since(began))
		}
	}
}

// requests counts the requests on each connection that a broker has accepted, by kind.
type requests struct {
	net.Listener
	mutex *sync.Mutex
	sent  map[net.Conn]map[int16]int // shared by all brokers
}

func (r requests) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &readConnection{Conn: conn, of: r}, nil
}

// readConnection is a connection whose requests are counted: each begins with its size, and its kind.
type readConnection struct {
	net.Conn
	of   requests
	rest bytes.Buffer
}

func (c *readConnection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.rest.Write(b[:n])
	for c.rest.Len() >= 6 {
		size := 4 + int(binary.BigEndian.Uint32(c.rest.Bytes()))
		kind := int16(binary.BigEndian.Uint16(c.rest.Bytes()[4:]))
		if c.rest.Len() < size {
			break
		}
		c.rest.Next(size)
		c.of.mutex.Lock()
		if c.of.sent[c] == nil {
			c.of.sent[c] = map[int16]int{}
		}
		c.of.sent[c][kind]++
		c.of.mutex.Unlock()
	}
	return n, err
}

// A process that waits uses few connections to a broker however many partitions it follows: one for the long polls of each
// subscription, twice a second, and some for all else.
func TestIdleProcessesUseFewConnections(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	counted := requests{mutex: new(sync.Mutex), sent: map[net.Conn]map[int16]int{}}
	cluster := valueOf(kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return requests{l, counted.mutex, counted.sent}, err
	})))(t)
	t.Cleanup(cluster.Close)
	on := trainOn(t, cluster, 40)
	for _, command := range [][]string{{"run"}, {"score"}, {"page"}, {"serve", "--listen", "127.0.0.1:0"}} {
		t.Run(command[0], func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan int)
			go func() { ended <- execute(ctx, append(command, on...), io.Discard, io.Discard) }()
			const period, most, often = 3 * time.Second, 6, 12 * 3
			used, fetches := 0, 0
			for began := time.Now(); time.Since(began) < time.Minute; {
				counted.mutex.Lock()
				clear(counted.sent)
				counted.mutex.Unlock()
				<-time.After(period)
				used, fetches = 0, 0
				counted.mutex.Lock()
				for _, kinds := range counted.sent {
					used++
					fetches += kinds[int16(kmsg.Fetch)]
				}
				counted.mutex.Unlock()
				if 0 < fetches && fetches <= often && used <= most {
					break
				}
			}
			stop()
			t.Logf("%d connections, %d fetches in %v", used, fetches, period)
			if code := <-ended; code != exitDone && code != exitInterrupted {
				t.Errorf("it ended with %d", code)
			}
			if fetches == 0 || fetches > often || used > most {
				t.Errorf("%d connections were used in %v, for %d fetches among others", used, period, fetches)
			}
		})
	}
}

// trainOn trains good.yaml with so many partitions of examples, and returns arguments with which no process begins another run.
func trainOn(t *testing.T, cluster *kfake.Cluster, partitions int) (arguments []string) {
	t.Helper()
	arguments = []string{"-c", "good.yaml", "--set", "brokers=" + cluster.ListenAddrs()[0], "--set", "retrain.rows=1000000", "--set",
		"retrain.after=10h", "--set", fmt.Sprint("examples.partitions=", partitions)}
	if code, _, stderr := stagewise(append([]string{"train", "--quiet"}, arguments...)...); code != exitDone {
		t.Fatal(stderr)
	}
	return arguments
}
