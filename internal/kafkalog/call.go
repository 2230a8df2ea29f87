package kafkalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
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
	version int16 // overrides the version that kafka-go supports, unless 0
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

// Required selects the version of the request, and makes the connection call RawExchange.
func (c *call) Required(versions map[protocol.ApiKey]int16) bool {
	c.request.SetVersion(max(c.version, versions[c.ApiKey()]))
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

// send sends a request to a broker, and returns the response.
func send[R kmsg.Response](ctx context.Context, l *Log, broker int32, request kmsg.Request) (response R, err error) {
	found, err := l.exchange(ctx, &call{request: request, broker: broker})
	if err != nil {
		return response, err
	}
	return found.Response.(R), nil
}

// exchange sends a call. If the addresses of [Options] do not answer a call for any broker, it tries another broker.
func (l *Log) exchange(ctx context.Context, c *call) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := l.transport.RoundTrip(ctx, l.seeds, c)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && c.broker == anyBroker {
		other := *c
		other.broker = knownBroker
		if found, failure := l.transport.RoundTrip(ctx, l.seeds, &other); failure == nil {
			response, err = found, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return response.(*answer), nil
}

// failure returns the error of a response's code; nil for 0.
func failure(code int16) error {
	if code == 0 {
		return nil
	}
	return kafka.Error(code)
}

// metadata requests the metadata of the cluster and of topics; nil means all topics. Topics are in the order of the
// request.
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
	if topics == nil {
		return found, nil
	}
	ordered := make([]kmsg.MetadataResponseTopic, len(topics))
	for i, name := range topics {
		at := slices.IndexFunc(found.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.Topic != nil && *t.Topic == name })
		if at < 0 {
			return nil, fmt.Errorf("the brokers do not say whether there is a topic %s: %w", name, errPending)
		}
		ordered[i] = found.Topics[at]
	}
	found.Topics = ordered
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

// leaders caches the leaders of the partitions of topics. Entries expire after layoutAge.
type leaders struct {
	mutex  sync.Mutex
	topics map[string]ledTopic
}

type ledTopic struct {
	brokers map[int]int32 // by partition; -1: none
	learnt  time.Time
}

// forget removes the leaders of a topic, so that the next request looks them up.
func (l *leaders) forget(topic string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.topics, topic)
}

// leadersOf returns the leaders of the partitions of a topic.
func (l *Log) leadersOf(ctx context.Context, topic string) (map[int]int32, error) {
	l.leaders.mutex.Lock()
	known, ok := l.leaders.topics[topic]
	l.leaders.mutex.Unlock()
	if ok && time.Since(known.learnt) < layoutAge {
		return known.brokers, nil
	}
	learnt := time.Now()
	found, err := l.topic(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("find the leaders of %s: %w", topic, err)
	}
	brokers := map[int]int32{}
	for _, p := range found.Partitions {
		brokers[int(p.Partition)] = p.Leader
	}
	l.leaders.mutex.Lock()
	defer l.leaders.mutex.Unlock()
	l.leaders.topics[topic] = ledTopic{brokers, learnt}
	return brokers, nil
}

// leader returns the leader of a partition.
func (l *Log) leader(ctx context.Context, topic string, partition int) (int32, error) {
	of, err := l.leadersOf(ctx, topic)
	if err != nil {
		return 0, err
	}
	leader, known := of[partition]
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
