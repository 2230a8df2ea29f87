package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

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

// trainOn trains good.yaml with so many partitions of examples, and returns arguments with which no process begins another run.
func trainOn(t *testing.T, cluster *kfake.Cluster, partitions int) (arguments []string) {
	t.Helper()
	arguments = []string{"-c", "good.yaml", "--set", "brokers=" + cluster.ListenAddrs()[0], "--set", "retrain.rows=1000000", "--set",
		"retrain.after=10h", "--set", fmt.Sprint("examples.partitions=", partitions)}
	typed(t, exitDone, append([]string{"train", "--quiet"}, arguments...)...)
	return arguments
}
