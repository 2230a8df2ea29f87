// Package kafkalog is a log on a Kafka cluster, or on a broker inside this process: it reads exact ranges of offsets,
// follows partitions with low latency, appends messages in order, creates and deletes topics, and assigns partitions to
// processes.
//
// It does not use kafka-go's Reader and Writer. The Reader returns the records of aborted transactions and transaction
// markers as messages, silently skips deleted offsets, and has no end; the Writer waits to fill batches. This package
// sends requests in the encoding of package kmsg through kafka-go's Transport, whose connections carry one request at a
// time: a long poll blocks its own connection and delays no other request. Fetched batches are decoded by package kgo.
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

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/internal/option"
)

// Header is a message header.
type Header struct {
	Key   string // the header's name. A message may have several headers with the same key.
	Value []byte // may be nil
}

// Message is a record of a partition.
type Message struct {
	Partition int // with Offset, the position of the message. Append ignores both.
	Offset    int64
	// Time is the message timestamp: the time of the producer, or of the broker if the topic's message.timestamp.type is
	// LogAppendTime. It is zero if the producer set none, like old clients. Append ignores it.
	Time       time.Time
	Key, Value []byte   // the content. A nil Value is a tombstone.
	Headers    []Header // in the order in which they were written
}

// Options are the location of the log and how to reach it.
type Options struct {
	Brokers []string // host:port addresses, at least one of which must answer. Empty: a broker inside this process.
	DataDir string   // the directory of the embedded broker's log. Only one process at a time can open it.
	// Listen is a host:port of the loopback interface for other programs that use the embedded broker, without authentication;
	// with port 0 it is any free port. Empty: no listener, and only this Log reaches the broker.
	Listen string
	// Sync makes the embedded broker acknowledge a message only after it is synced to disk, so that a power failure loses no
	// acknowledged message. Without it the operating system writes within seconds, and a killed process loses none.
	Sync bool
	// Waiting is called when an operation has been retried for longer than a second, then at growing intervals, and when it
	// ends. It is called concurrently, and blocks the operation. nil: no reports.
	Waiting func(Wait)
	// Repeated is called when messages are written to a topic again after an error with which the brokers may have appended
	// them: see [Log.Append]. It is called concurrently. nil: no reports.
	Repeated func(topic string)
	Security Security // TLS and SASL for Brokers. The embedded broker ignores it.

	cleanEvery time.Duration // 0: cleanInterval
}

const (
	clientID       = "stagewise"      // identifies us in the brokers' logs and quotas
	requestTimeout = 30 * time.Second // the timeout of a request to a broker
	idleTime       = time.Minute      // the time after which an idle connection is closed
	brokersAge     = 10 * time.Second // the maximum age of the brokers' addresses
	// unknownTimeout is the time for which a topic may be unknown before that is an error. Brokers learn of a new topic one by
	// one.
	unknownTimeout = 2 * time.Second
	// stallTime is the maximum time that a Range waits if the log ends before the range. A new leader can lag for a moment; a
	// recreated topic stays short.
	stallTime = 10 * time.Second
	// mismatchTimeout limits each attempt to determine why a broker closed a connection.
	mismatchTimeout = 2 * time.Second
)

// Log is a client of the brokers. It is safe for concurrent use. Create it with [Open].
type Log struct {
	addresses []string
	identity  secure.Identity
	seeds     net.Addr         // addresses, as transport takes them
	transport *kafka.Transport // all connections
	leaders   sync.Map         // by topic: ledTopic
	broker    *broker          // nil if the brokers are not embedded

	ctx   context.Context         // ends with Close, or when the embedded broker has failed permanently
	end   context.CancelCauseFunc // ends ctx; the cause is the error of later calls
	close func() error

	waiting  func(Wait)
	repeated func(topic string)
	cleaning sync.Mutex // held while the log is cleaned

	found sync.Map // topics of successful requests

	// The constants with these names, which tests shorten.
	unknownTimeout, stall            time.Duration
	session, heartbeat, watch, leave time.Duration
}

// Open connects to the brokers and waits up to 30 s for a response. Without Brokers it starts the embedded broker on DataDir;
// the error wraps a *LockedError if another process still has it open after five seconds, and a *DamagedError if one of its
// files is damaged: see [Repair]. It returns an [option.Problem] if Security is invalid, and an error that wraps an
// *AccessError if the brokers deny access.
func Open(ctx context.Context, o Options) (*Log, error) {
	l := &Log{
		addresses: slices.Clone(o.Brokers), waiting: o.Waiting, repeated: o.Repeated,
		unknownTimeout: unknownTimeout, stall: stallTime,
		session: sessionTime, heartbeat: heartbeatTime, watch: watchTime, leave: leaveTime,
	}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	if len(o.Brokers) > 0 {
		var wrong []option.Problem
		if l.identity, wrong = o.Security.Identity(); len(wrong) > 0 {
			return nil, wrong[0]
		}
	} else {
		if o.DataDir == "" {
			return nil, errors.New("open log: set brokers or a data directory")
		}
		var err error
		if l.broker, err = startBroker(ctx, o, l.end); err != nil {
			return nil, err
		}
		l.addresses = []string{l.broker.listener.address().String()}
	}
	l.seeds = kafka.TCP(l.addresses...)
	l.transport = &kafka.Transport{Dial: l.dial, ClientID: clientID, SASL: l.identity.SASL(), Context: l.ctx, IdleTimeout: idleTime,
		MetadataTTL: brokersAge, MetadataTopics: []string{}} // no topics: the Transport does not need their leaders
	var cleaning sync.WaitGroup
	l.close = sync.OnceValue(func() error {
		l.end(ErrClosed)
		cleaning.Wait()
		l.transport.CloseIdleConnections()
		if l.broker != nil {
			return l.broker.stop()
		}
		return nil
	})
	if l.broker != nil {
		cleaned := l.broker.cleaned
		cleaning.Go(func() { l.keepClean(cmp.Or(o.cleanEvery, cleanInterval), cleaned) })
	}

	if err := l.reach(ctx); err != nil {
		err = l.identity.Explain(l.mismatch(ctx, err))
		return nil, errors.Join(fmt.Errorf("reach Kafka at %s: %w", strings.Join(l.addresses, ", "), err), l.Close())
	}
	return l, nil
}

// reach makes sure that a broker responds. A broker that accepts a connection and closes it may be stopping or starting,
// so reach retries for unknownTimeout. If no broker accepts a connection, no broker runs or the addresses are wrong, and
// reach fails at once.
func (l *Log) reach(ctx context.Context) error {
	began := time.Now()
	var permanent error
	err := l.attempt(ctx, "", "reach Kafka", func(ctx context.Context) error {
		_, err := l.metadata(ctx, []string{})
		if o, ok := errors.AsType[*net.OpError](err); err != nil && (ok && o.Op == "dial" || time.Since(began) > l.unknownTimeout) {
			permanent, err = err, nil
		}
		return err
	})
	return cmp.Or(permanent, err)
}

// Close ends all readers, memberships and blocked calls, and stops the embedded broker. Its data directory can then be
// opened again. A second Close does nothing and returns the same error.
func (l *Log) Close() error { return l.close() }

// Discard is Close for a caller that has failed. If Open created the data directory of the embedded broker, and no message
// was written since, it removes the directory again.
func (l *Log) Discard() error {
	if l.broker != nil {
		l.broker.mu.Lock()
		l.broker.discard = true
		l.broker.mu.Unlock()
	}
	return l.Close()
}

// Embedded reports whether the broker runs inside this process.
func (l *Log) Embedded() bool { return l.broker != nil }

// Addr returns the addresses of the brokers with which the log was opened, or that of the embedded broker's listener, if
// it has one.
func (l *Log) Addr() []string {
	if l.broker != nil && l.broker.listener.port == nil {
		return nil
	}
	return slices.Clone(l.addresses)
}
