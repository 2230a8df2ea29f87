// Package kafkalog is a log on a Kafka cluster, or on a broker inside this process: it reads exact ranges of offsets, follows
// partitions with little delay, appends messages in order, creates and deletes topics, and divides partitions among
// processes.
//
// It does not use kafka-go's Reader and Writer. The Reader returns the records of aborted transactions and transaction markers
// as messages, silently skips deleted offsets, and has no end; the Writer waits to fill batches. This package sends one
// request at a time through package cluster, which uses a connection for one call at a time: a long poll blocks its own
// connection and delays no other call. All who follow partitions share a long poll to each broker while nothing comes: see package
// longpoll. So a process that is idle uses two connections to a broker. Package classic joins and leaves groups.
//
// Delivery is at least once and ordered: a write that the broker applied but answered with an error is sent again.
package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/internal/kafkalog/cluster"
	"github.com/stagewise/stagewise/internal/kafkalog/embedded"
	"github.com/stagewise/stagewise/internal/kafkalog/longpoll"
	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// Header is a key and a value beside a message's content.
type Header struct {
	// Key is the header's name. A message may have several headers with one key.
	Key string
	// Value may be nil.
	Value []byte
}

// Message is one record of a partition. Readers share memory with each other and with the writer, so callers may keep
// messages, and change none.
type Message struct {
	// Partition and Offset are where the message is. Append ignores them.
	Partition int
	Offset    int64
	// Time is when its producer wrote it, or if message.timestamp.type of the topic is LogAppendTime when the brokers got
	// it. It is zero if the producer gave none, as those of old clients do. Append ignores it.
	Time time.Time
	// Key and Value are the content. A nil Value is a tombstone.
	Key, Value []byte
	// Headers are in the order in which they were written.
	Headers []Header
}

// Options say where the log is and how to reach it.
type Options struct {
	// Brokers are host:port addresses, at least one of which must answer. Empty: a broker inside this process.
	Brokers []string
	// DataDir is the directory of the embedded broker's log. Only one process at a time can open it. See [Log.Clean] for what is
	// deleted from it.
	DataDir string
	// Listen is a host:port of the loopback interface at which other programs reach the embedded broker, which has no
	// authentication; with port 0 it is any free port. Empty: the broker listens nowhere, and only this Log reaches it.
	Listen string
	// Sync makes the embedded broker acknowledge a message only when the disk has it, so that a loss of power takes none that is
	// acknowledged. Without it the operating system writes within seconds, and a process that is killed loses none.
	Sync bool
	// Waiting is called when an operation has been retried for longer than a second, then at growing intervals, and when it
	// ends. Many goroutines call it, and each waits for it to return. nil: no reports.
	Waiting func(Wait)
	// Repeated is called when messages are written to a topic again because of an error after which brokers may have them: see
	// [Log.Append]. Many goroutines call it. nil: nobody asks.
	Repeated func(topic string)
	// Security is TLS and SASL for Brokers. The embedded broker ignores it.
	Security Security

	now        func() time.Time // nil: time.Now
	cleanEvery time.Duration    // 0: cleanInterval
}

const (
	// clientID is our name in the brokers' logs and quotas.
	clientID = "stagewise"
	// requestTimeout ends a request to a broker that no longer answers.
	requestTimeout = 30 * time.Second
	// unknownTimeout is how long a topic may be unknown before that is an error. Brokers learn of a new topic one by one.
	unknownTimeout = 2 * time.Second
	// stallTime is how long a Range waits if the log ends before the range does. A new leader can lag for a moment; a topic that
	// was deleted and created again stays short.
	stallTime = 10 * time.Second
	// mismatchTimeout limits each attempt to find out why a broker closed a connection.
	mismatchTimeout = 2 * time.Second
)

// Log is a connection to the brokers. Its methods may be called from any goroutine. Made by [Open].
type Log struct {
	addresses []string
	identity  secure.Identity
	cluster   *cluster.Cluster // all connections
	client    *kafka.Client    // kafka-go's requests, sent by cluster
	polls     *longpoll.Polls  // of those who follow partitions
	broker    *embedded.Broker // nil if the brokers are not embedded

	ctx   context.Context         // ends with Close, or when the embedded broker has failed for good
	end   context.CancelCauseFunc // ends ctx; the cause is the error of later calls
	close func() error

	waiting  func(Wait)
	repeated func(topic string)
	now      func() time.Time // for Clean
	cleaning sync.Mutex       // held by Clean

	found sync.Map // the topics of successful requests
	tail  *tail    // nil unless the broker is embedded and listens nowhere

	// The constants of these names, which tests shorten.
	unknownTimeout, stall            time.Duration
	session, heartbeat, watch, leave time.Duration
}

// Open connects to the brokers and waits up to 30 s until one answers. Without Brokers it starts the embedded broker on DataDir,
// or returns a *LockedError if another process has it open, or an error that wraps a *DamagedError if one of its files is damaged:
// see [Repair]. It returns a *SecurityError if Security is invalid, and an error that wraps an *AccessError if the brokers refuse us.
func Open(ctx context.Context, o Options) (*Log, error) {
	recordbatch.BoundCompression()
	l := &Log{
		addresses: slices.Clone(o.Brokers), waiting: o.Waiting, repeated: o.Repeated, now: o.now,
		unknownTimeout: unknownTimeout, stall: stallTime,
		session: sessionTime, heartbeat: heartbeatTime, watch: watchTime, leave: leaveTime,
	}
	if l.now == nil {
		l.now = time.Now
	}
	var cleaned error
	if len(o.Brokers) > 0 {
		var wrong []*SecurityError
		if l.identity, wrong = o.Security.Identity(); len(wrong) > 0 {
			return nil, wrong[0]
		}
	} else {
		if o.DataDir == "" {
			return nil, errors.New("open log: set brokers or a data directory")
		}
		var err error
		if l.broker, cleaned, err = embedded.Start(embedded.Options{Dir: o.DataDir, Listen: o.Listen, Sync: o.Sync}, l.now()); err != nil {
			return nil, err
		}
		l.addresses = []string{l.broker.Address().String()}
		if o.Listen == "" {
			l.tail = newTail()
		}
	}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.cluster = cluster.New(cluster.Options{Addresses: l.addresses, ClientID: clientID, Dial: l.dial, SASL: l.identity.SASL()})
	l.polls = longpoll.New(longpoll.Options{Send: l.cluster.Send, Leads: l.leads, Timeout: requestTimeout})
	l.client = &kafka.Client{Addr: kafka.TCP(l.addresses...), Timeout: requestTimeout, Transport: l.cluster}
	var cleaning sync.WaitGroup
	l.close = sync.OnceValue(func() error {
		l.end(ErrClosed)
		cleaning.Wait()
		l.polls.Close()
		l.cluster.Close()
		if l.broker != nil {
			return l.broker.Stop()
		}
		return nil
	})
	if l.broker != nil {
		cleaning.Go(func() { l.keepClean(cmp.Or(o.cleanEvery, cleanInterval), cleaned) })
	}

	if err := l.reach(ctx); err != nil {
		err = l.identity.Explain(l.mismatch(ctx, err))
		return nil, errors.Join(fmt.Errorf("reach Kafka at %s: %w", strings.Join(l.addresses, ", "), err), l.Close())
	}
	return l, nil
}

// reach makes sure that a broker answers. A broker that accepts a connection and breaks it may be stopping or starting, so
// reach retries for unknownTimeout. If no broker accepts a connection, no broker runs or the addresses are wrong, and reach fails
// at once.
func (l *Log) reach(ctx context.Context) error {
	began := time.Now()
	var permanent error
	err := l.retry(ctx, "reach Kafka", func(ctx context.Context) error {
		_, err := l.metadata(ctx, []string{})
		if o, ok := errors.AsType[*net.OpError](err); err != nil && (ok && o.Op == "dial" || time.Since(began) > l.unknownTimeout) {
			permanent, err = err, nil
		}
		return err
	})
	if permanent != nil {
		return permanent
	}
	return err
}

// Close ends every reader, every membership and every waiting call, and stops the embedded broker. The directory of its log can
// then be opened again. A second Close does nothing and returns the same error.
func (l *Log) Close() error { return l.close() }

// Discard is Close for a caller that has failed. If Open made the data directory of the embedded broker, and no message was written
// since, it removes the directory again: nothing is left of a mistake.
func (l *Log) Discard() error {
	if l.broker != nil {
		l.broker.DiscardUnused()
	}
	return l.Close()
}

// Embedded reports whether the broker runs inside this process.
func (l *Log) Embedded() bool { return l.broker != nil }

// Addr returns the addresses of the brokers that the log was opened with, or the one at which the embedded broker listens: none
// if it listens nowhere.
func (l *Log) Addr() []string {
	if l.broker != nil && !l.broker.Listens() {
		return nil
	}
	return slices.Clone(l.addresses)
}

// metadata asks the brokers for the cluster's layout and that of the topics; nil means all topics.
func (l *Log) metadata(ctx context.Context, topics []string) (*kafka.MetadataResponse, error) {
	return l.client.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
}
