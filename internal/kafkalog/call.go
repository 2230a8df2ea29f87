package kafkalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

const (
	// anyBroker is the destination of requests that any broker can answer: an address of [Options] or, if none responds, knownBroker, a
	// random broker of the cluster. controller is the destination of requests that change the cluster.
	anyBroker   int32 = -1
	controller  int32 = -2
	knownBroker int32 = -3
	// maxAnswerBytes limits a response. The partitions of a fetch have limits of their own.
	maxAnswerBytes = 1 << 30
	// layoutAge is the maximum age of the leaders of a topic. Brokers report when they no longer lead a partition, but
	// not during a network partition.
	layoutAge = 30 * time.Second
	// writeTime is the time to wait for the response to a write after its context has ended. It is shorter than common
	// termination grace periods.
	writeTime = 3 * time.Second
)

// call is a request in the encoding of package kmsg, sent through kafka-go's Transport. kafka-go's own requests lack
// DeleteRecords, DescribeCluster and the headers of fetched batches, and its Transport answers metadata requests from a
// cache.
type call struct {
	request kmsg.Request
	broker  int32 // a node ID, or one of the constants
}

// answer is the response of a call.
type answer struct{ kmsg.Response }

//lint:ignore ST1003 the name is that of kafka-go's interface
func (c *call) ApiKey() protocol.ApiKey { return protocol.ApiKey(c.request.Key()) }

//lint:ignore ST1003 the name is that of kafka-go's interface
func (a *answer) ApiKey() protocol.ApiKey { return protocol.ApiKey(a.Key()) }

// Broker returns the broker to which the Transport sends the call.
func (c *call) Broker(layout protocol.Cluster) (protocol.Broker, error) {
	id := c.broker
	switch id {
	case anyBroker:
		return protocol.Broker{ID: anyBroker}, nil
	case controller:
		id = layout.Controller
	case knownBroker:
		for _, broker := range layout.Brokers { // in random order
			return broker, nil
		}
	}
	broker, known := layout.Brokers[id]
	if !known {
		return broker, kafka.BrokerNotAvailable
	}
	return broker, nil
}

// Required selects the version of the request, that which kafka-go supports or a later one that is set, and makes the connection call
// RawExchange.
func (c *call) Required(versions map[protocol.ApiKey]int16) bool {
	c.request.SetVersion(max(c.request.GetVersion(), versions[c.ApiKey()]))
	return true
}

// RawExchange sends the request and reads the response.
func (c *call) RawExchange(conn io.ReadWriter) (protocol.Message, error) {
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	if _, err := conn.Write(formatter.AppendRequest(nil, c.request, 0)); err != nil {
		return nil, err
	}
	response := c.request.ResponseKind()
	response.SetVersion(c.request.GetVersion())
	header := make([]byte, 8, 9) // length and correlation ID
	if response.IsFlexible() {
		header = header[:9] // and the number of tags: none
	}
	if _, err := io.ReadFull(conn, header); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(header)) + 4 - int64(len(header))
	if size < 0 || size > maxAnswerBytes {
		return nil, fmt.Errorf("a response of %d bytes to a %s request", size, kmsg.NameForKey(c.request.Key()))
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, err
	}
	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode the response to a %s request: %w", kmsg.NameForKey(c.request.Key()), err)
	}
	return &answer{response}, nil
}

// send sends a request to a broker, and returns the response. If the addresses of [Options] do not answer a request for any broker, it
// tries another broker.
func send[R kmsg.Response](ctx context.Context, l *Log, broker int32, request kmsg.Request) (response R, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := l.transport.RoundTrip(ctx, l.seeds, &call{request, broker})
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && broker == anyBroker {
		if other, failure := l.transport.RoundTrip(ctx, l.seeds, &call{request, knownBroker}); failure == nil {
			found, err = other, nil
		}
	}
	if err != nil {
		return response, err
	}
	return found.(*answer).Response.(R), nil
}

// failure returns the error of a response's code; nil for 0.
func failure(code int16) error {
	if code == 0 {
		return nil
	}
	return kafka.Error(code)
}

// metadata requests the metadata of the cluster and of topics; nil means all topics.
func (l *Log) metadata(ctx context.Context, topics []string) (*kmsg.MetadataResponse, error) {
	request := kmsg.NewPtrMetadataRequest()
	if topics != nil {
		request.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	found, err := send[*kmsg.MetadataResponse](ctx, l, anyBroker, request)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		if !slices.ContainsFunc(found.Topics, func(t kmsg.MetadataResponseTopic) bool { return text(t.Topic) == name }) {
			return nil, fmt.Errorf("the brokers do not say whether there is a topic %s: %w", name, errPending)
		}
	}
	return found, nil
}

// topic requests the metadata of a topic.
func (l *Log) topic(ctx context.Context, name string) (t kmsg.MetadataResponseTopic, err error) {
	found, err := l.metadata(ctx, []string{name})
	if err != nil {
		return t, err
	}
	return found.Topics[0], failure(found.Topics[0].ErrorCode)
}

// ledTopic is the leaders of the partitions of a topic.
type ledTopic struct {
	brokers map[int]int32 // by partition; -1: none
	learnt  time.Time
}

// leader returns the leader of a partition.
func (l *Log) leader(ctx context.Context, topic string, partition int) (int32, error) {
	cached, _ := l.leaders.Load(topic)
	of, ok := cached.(ledTopic)
	if !ok || time.Since(of.learnt) >= layoutAge {
		of = ledTopic{map[int]int32{}, time.Now()}
		found, err := l.topic(ctx, topic)
		if err != nil {
			return 0, fmt.Errorf("find the leaders of %s: %w", topic, err)
		}
		for _, p := range found.Partitions {
			of.brokers[int(p.Partition)] = p.Leader
		}
		l.leaders.Store(topic, of)
	}
	leader, known := of.brokers[partition]
	switch {
	case !known:
		return 0, fmt.Errorf("topic %s has no partition %d: %w", topic, partition, kafka.UnknownTopicOrPartition)
	case leader < 0:
		return 0, fmt.Errorf("%s[%d]: %w", topic, partition, kafka.LeaderNotAvailable)
	}
	return leader, nil
}

// Aliases of package secure, so that the pipeline imports only this package.
type (
	// Security is how to authenticate brokers, and ourselves to them. The zero value is plain text without a user.
	Security = secure.Options
	// Secret is a string that is never printed.
	Secret = secure.Secret
	// AccessError is an error of authentication, authorization or trust. Retrying does not help.
	AccessError = secure.AccessError
)

// NewSecret returns a Secret that holds text. An empty text gives the zero Secret.
func NewSecret(text string) Secret { return secure.NewSecret(text) }

// dial opens a connection that closes with the log, after the TLS handshake if TLS is enabled. It replaces kafka-go's own
// dialer, which leaves an abandoned request open until the broker answers, and a connection open after a failed handshake.
func (l *Log) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dialPlain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return l.identity.Handshake(ctx, conn, address)
}

func (l *Log) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	dial := new(net.Dialer).DialContext
	if l.broker != nil {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.broker.listener.pipe(ctx) }
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &connection{conn, context.AfterFunc(l.ctx, func() { conn.Close() })}, nil
}

// connection is a connection that closes when a context ends.
type connection struct {
	net.Conn
	forget func() bool // stops watching the context
}

func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// mismatch returns an *AccessError if a broker closed the connection because only one side uses TLS, because it requires
// authentication, or, before Kafka 1.0, because the password is wrong. The protocol has no error codes for these, so
// mismatch tries the other ways to connect.
func (l *Log) mismatch(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	encrypted := l.identity.Encrypted()
	for _, address := range l.addresses {
		check := ""
		switch requests := l.requests(ctx, address, l.dial); {
		case !encrypted && l.speaksTLS(ctx, address):
			check = "security.tls.enabled: " + address + " speaks TLS"
		case encrypted && l.requests(ctx, address, l.dialPlain) != nil:
			check = "security.tls.enabled: " + address + " does not speak TLS"
		case requests == nil:
			continue
		case !slices.ContainsFunc(requests, func(r kmsg.ApiVersionsResponseApiKey) bool { return r.ApiKey == int16(kmsg.Metadata) }):
			check = "brokers: " + address + " is the port of a KRaft controller: expected the port of a broker, as in its listeners"
		default: // it responds before the login and closes the connection at the login
			check = fmt.Sprintf("security.sasl: %s does not accept %s by mechanism %s", address, l.identity.Principal(), l.identity.Mechanism())
		}
		return &AccessError{Err: err, Check: check}
	}
	return err
}

func (l *Log) speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := l.dialPlain(ctx, "tcp", address)
	return err == nil && secure.SpeaksTLS(ctx, conn, address)
}

// requests returns the requests that a broker supports, or nil if the broker does not respond. It needs no login.
func (l *Log) requests(
	ctx context.Context, address string, dial func(context.Context, string, string) (net.Conn, error),
) []kmsg.ApiVersionsResponseApiKey {
	ctx, cancel := context.WithTimeout(ctx, mismatchTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	found, err := (&call{request: kmsg.NewPtrApiVersionsRequest()}).RawExchange(conn)
	if err != nil {
		return nil
	}
	return found.(*answer).Response.(*kmsg.ApiVersionsResponse).ApiKeys
}

var (
	// ErrUnknownTopic means that the topic or the partition does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrClosed means that the log or the reader was closed.
	ErrClosed = errors.New("log is closed")
)

// DeletedError means that the partition no longer has an offset that a reader needs: retention deleted it, or the topic
// was recreated.
type DeletedError struct {
	// Topic and Partition are the partition that was read.
	Topic      string
	Partition  int
	Wanted     int64 // the needed offset
	First, End int64 // the remaining offsets, [First, End)
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("%s[%d] no longer holds offset %d; it holds [%d, %d)", e.Topic, e.Partition, e.Wanted, e.First, e.End)
}

// WriteError means that the embedded broker could not write to its files, for example because the disk is full.
type WriteError struct {
	Path string // the file or directory
	Err  error  // the error of the file system
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("the embedded broker could not write to %s: %v; make room or allow it there, or set data_dir to a "+
		"folder on another disk", e.Path, e.Err)
}

// Unwrap returns Err.
func (e *WriteError) Unwrap() error { return e.Err }

// LockedError means that another process uses the data directory.
type LockedError struct {
	Dir    string // the data directory
	PID    int    // the id of the process that uses it, or 0 if it is unknown
	Listen string // the address at which its broker listens for other programs; empty: no listener
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d", e.Dir, e.PID)
}

const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
)

// errPending means that the brokers have accepted a request but not completed it.
var errPending = errors.New("not done yet")

// retry calls do until it succeeds, fails permanently, or ctx ends. what describes the operation, for its error and for
// Options.Waiting. Before each retry it forgets the leaders of the topic, which may have changed. An empty topic means none.
func (l *Log) retry(ctx context.Context, topic, what string, do func(context.Context) error) error {
	if err := l.attempt(ctx, topic, what, do); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// attempt is retry for a caller whose own error says what was attempted.
func (l *Log) attempt(ctx context.Context, topic, what string, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	// Close ends l.ctx, and its connections may fail do before the AfterFunc has run.
	over := func() bool {
		if l.ctx.Err() != nil {
			cancel(context.Cause(l.ctx))
		}
		return ctx.Err() != nil
	}

	wait := reporter{report: l.waiting, what: what}
	defer func() { wait.over(err) }()
	var failure error
	var unknownSince time.Time
	// A topic that was found before may be unknown for much longer: a broker that has just restarted knows no topics for a while.
	unknownTimeout := l.unknownTimeout
	if _, found := l.found.Load(topic); found {
		unknownTimeout *= 15
	}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if over() {
			return ended(ctx, failure)
		}
		began := time.Now()
		err := do(ctx)
		if err == nil {
			if topic != "" {
				l.found.Store(topic, true)
			}
			return nil
		}
		if over() {
			return ended(ctx, failure)
		}
		failure = err
		switch {
		case !unknown(err):
			unknownSince = time.Time{}
			if !retriable(err) {
				return l.identity.Explain(err)
			}
		case unknownSince.IsZero():
			unknownSince = time.Now()
		case time.Since(unknownSince) > unknownTimeout:
			return ErrUnknownTopic
		}
		wait.failed(began, failure)
		l.leaders.Delete(topic)
		pause(ctx, backoff)
	}
}

// ended returns the error of a retry whose ctx has ended, with the last transient error.
func ended(ctx context.Context, failure error) error {
	if failure == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w, while retrying after: %w", context.Cause(ctx), failure)
}

// pause waits between d/2 and d, or until ctx ends. The jitter spreads the retries of readers that failed together.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// unknown reports whether a topic or partition is unknown. The error is transient if the topic was just created, and
// permanent if it does not exist.
func unknown(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.UnknownTopicID)
}

// retriable reports whether a retry may succeed: after the errors that
// https://kafka.apache.org/protocol#protocol_error_codes lists as retriable, with the exceptions below, after connection
// errors, and after errPending.
func retriable(err error) bool {
	// This check is first because a kafka.Error is also a net.Error.
	if code, ok := errors.AsType[kafka.Error](err); ok {
		switch code {
		case kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable: // a broker that the Transport does not know yet
			return true
		case kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.RebalanceInProgress, kafka.MemberIDRequired: // the member rejoins
			return true
		case kafka.InvalidMessage: // TCP has a checksum, so the message is corrupt on the broker
			return false
		}
		return code.Temporary()
	}
	if errors.As(err, new(*WriteError)) { // a file system error is also a net.Error
		return false
	}
	if errors.As(err, new(*AccessError)) || secure.IsAlert(err) { // may be wrapped in a net.Error, like an alert
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok { // includes context.DeadlineExceeded of a single request
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errPending)
}

// Wait reports an operation that is being retried because of broker errors.
type Wait struct {
	What  string        // the operation, such as "append to x[0]"
	Since time.Duration // the duration so far
	Err   error         // the latest error. With Over it is the result of the operation, nil if it succeeded.
	Over  bool          // the operation has ended
}

const (
	minWaitInterval = time.Second // the delay of the first report. A change of leader takes less.
	maxWaitInterval = time.Minute // the maximum interval between two reports of one operation
)

// reporter reports the waits of one operation.
type reporter struct {
	report func(Wait) // nil: nothing is reported
	what   string

	since    time.Time     // the start of the first failed attempt; zero before that
	next     time.Time     // of the next report
	interval time.Duration // between reports; zero before the first
}

// failed records a failed attempt that started at the given time, and reports the wait if it is due.
func (w *reporter) failed(began time.Time, failure error) {
	if w.report == nil {
		return
	}
	if w.since.IsZero() {
		w.since, w.next = began, began.Add(minWaitInterval)
	}
	now := time.Now()
	if now.Before(w.next) {
		return
	}
	w.interval = min(max(2*w.interval, minWaitInterval), maxWaitInterval)
	w.next = now.Add(w.interval)
	w.report(Wait{What: w.what, Since: now.Sub(w.since), Err: failure})
}

// over reports the end of the operation, if its wait was reported.
func (w *reporter) over(err error) {
	if w.interval > 0 {
		w.report(Wait{What: w.what, Since: time.Since(w.since), Err: err, Over: true})
	}
	*w = reporter{report: w.report, what: w.what}
}
