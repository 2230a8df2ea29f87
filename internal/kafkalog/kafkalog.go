// Package kafkalog turns a Kafka cluster, or a broker inside this process, into what the flow needs of a log: ranges of
// offsets read exactly, partitions followed with little delay, messages appended in order, topics set up, partitions divided
// among processes.
//
// kafka-go's Reader and Writer are not used. The Reader returns the records of aborted transactions and transaction
// markers as messages, skips in silence when its offset was deleted, and knows no end; the Writer waits to fill batches.
// Everything here is one request at a time through kafka-go's Transport, which carries one call a connection: a blocked
// long poll holds a connection of its own and delays nobody else. Only joining and leaving a group is its ConsumerGroup's.
//
// Delivery is at least once and ordered: a write that was applied but answered with an error is written again.
package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// Header is a name and a value that travel with a message.
type Header struct {
	Key   string
	Value []byte
}

// Message is one record of a partition. Key and Value are slices of their own, free to keep; a nil Value is a tombstone.
// Append ignores Partition and Offset.
type Message struct {
	Partition  int
	Offset     int64
	Key, Value []byte
	Headers    []Header
}

// Header returns the value of the first header with that key, or "".
func (m Message) Header(key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// Options say where the log is.
type Options struct {
	// Brokers are host:port addresses, of which one must answer. Empty: a broker inside this process.
	Brokers []string
	// DataDir holds the log of the broker inside this process, which nobody else may have open. Nothing is ever
	// deleted from it but whole topics: the broker's own compaction is not safe against a crash.
	DataDir string
	// Waiting is told what an operation waits for when that takes longer than a second, then less and less often, and when it
	// is over. It is called from many goroutines, which wait for it to return. nil: nobody is told.
	Waiting func(Wait)
	// Security is how Brokers are reached. The broker inside this process has none.
	Security Security
}

const (
	// clientID names us in the brokers' logs and quotas.
	clientID = "stagewise"
	// requestTimeout ends a request to a broker that went silent.
	requestTimeout = 30 * time.Second
	// settleTime is how long a topic may be unknown before that is believed: brokers learn of a new topic one by one.
	settleTime = 2 * time.Second
	// stallTime is how long a Range may find the log to end before the range does. A leader that was just elected can
	// lag for a moment; a topic that was made anew stays short.
	stallTime = 10 * time.Second
	// dialTime is how long it may take to connect to a broker, as in kafka-go's own dialer.
	dialTime = 10 * time.Second
	// mismatchTimeout is how long a broker that closed a connection may take to show why.
	mismatchTimeout = 2 * time.Second
)

// Log is a connection to the brokers. Its methods may be called from any goroutine.
type Log struct {
	addresses []string
	identity  secure.Identity
	transport *kafka.Transport
	client    *kafka.Client
	broker    *broker // nil when the brokers are elsewhere

	ctx   context.Context // ends with Close
	close func() error

	waiting func(Wait)

	met                                sync.Map // the topics that were there
	settle, stall                      time.Duration
	session, heartbeat, watch, parting time.Duration
}

// Open connects to the brokers and makes sure that one answers, within 30 s at most; without Brokers it starts one on
// DataDir, or returns a *LockedError when another process has that open. A Security that can't be is a *SecurityError,
// brokers that don't let us in are an *AccessError.
func Open(ctx context.Context, o Options) (*Log, error) {
	boundCompression()
	l := &Log{
		addresses: slices.Clone(o.Brokers), waiting: o.Waiting,
		settle: settleTime, stall: stallTime,
		session: sessionTime, heartbeat: heartbeatTime, watch: watchTime, parting: partingTime,
	}
	if len(o.Brokers) > 0 {
		var wrong []*SecurityError
		if l.identity, wrong = o.Security.Identity(); len(wrong) > 0 {
			return nil, wrong[0]
		}
	} else {
		var err error
		if l.broker, err = startBroker(o.DataDir); err != nil {
			return nil, err
		}
		l.addresses = l.broker.cluster.ListenAddrs()
	}
	var end context.CancelFunc
	l.ctx, end = context.WithCancel(context.Background())
	l.transport = &kafka.Transport{ClientID: clientID, Dial: l.dial, SASL: l.identity.SASL(), Context: l.ctx}
	l.client = &kafka.Client{Addr: kafka.TCP(l.addresses...), Timeout: requestTimeout, Transport: l.transport}
	l.close = sync.OnceValue(func() error {
		end()
		l.transport.CloseIdleConnections()
		if l.broker != nil {
			return l.broker.stop()
		}
		return nil
	})

	if err := l.reach(ctx); err != nil {
		err = l.identity.Explain(l.mismatch(ctx, err))
		return nil, errors.Join(fmt.Errorf("reach Kafka at %s: %w", strings.Join(l.addresses, ", "), err), l.Close())
	}
	return l, nil
}

// reach makes sure that a broker answers. One that takes a connection and breaks it may be about to die or have just come
// back, so it, or another, is asked again for a moment. Where none takes a connection there is nobody, or the addresses are
// wrong, and whoever wrote them hears of it at once.
func (l *Log) reach(ctx context.Context) error {
	began := time.Now()
	var lasting error
	err := l.retry(ctx, "reach Kafka", func(ctx context.Context) error {
		_, err := l.metadata(ctx, []string{})
		if o, ok := errors.AsType[*net.OpError](err); err != nil && (ok && o.Op == "dial" || time.Since(began) > l.settle) {
			lasting, err = err, nil
		}
		return err
	})
	if lasting != nil {
		return lasting
	}
	return err
}

// Close ends every reader, every membership and every waiting call, and stops the embedded broker. Its log can be opened again.
func (l *Log) Close() error { return l.close() }

// Embedded reports whether the broker runs inside this process.
func (l *Log) Embedded() bool { return l.broker != nil }

// Addr returns the addresses of the brokers that the log was opened with, or that of the embedded broker.
func (l *Log) Addr() []string { return slices.Clone(l.addresses) }

// metadata asks the cluster afresh; nil means all topics. The shared transport would answer from what it heard up to
// six seconds ago, so this one is made for a single question.
func (l *Log) metadata(ctx context.Context, topics []string) (*kafka.MetadataResponse, error) {
	transport := &kafka.Transport{ClientID: clientID, Dial: l.dial, SASL: l.identity.SASL(), MetadataTopics: topics}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(l.addresses...), Timeout: requestTimeout, Transport: transport}
	return client.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
}
