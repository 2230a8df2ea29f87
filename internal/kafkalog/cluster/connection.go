package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
)

const (
	// connectTimeout limits the time until a connection is usable, including the login.
	connectTimeout = 5 * time.Second
	// requestTimeout limits a request whose context has no deadline.
	requestTimeout = 30 * time.Second
	// idleTime is the idle timeout of connections, that of Kafka's own clients: brokers close connections after ten minutes
	// (connections.max.idle.ms).
	idleTime = 9 * time.Minute
	// spareTime is the idle timeout of connections in excess of those needed for a broker.
	spareTime = 30 * time.Second
	// shortTime is the maximum time that a request waits for the connection of a short request.
	shortTime = 100 * time.Millisecond
	// writeTime is the time to wait for the response to a write after its context has ended. It is shorter than common
	// termination grace periods.
	writeTime = 3 * time.Second
)

// connection is a connection to a broker, for one request at a time.
type connection struct {
	*protocol.Conn
	address string
	used    time.Time // last use
	ends    time.Time // when the broker requires reauthentication (connections.max.reauth.ms); zero: never
}

// stale reports whether the broker may soon close a connection.
func (c *connection) stale(now time.Time) bool {
	return now.Sub(c.used) > idleTime || !c.ends.IsZero() && now.After(c.ends)
}

// Send sends a request to the broker at an address. If its context ends before the response arrives, the connection
// becomes idle when it does. The broker may apply such a request at any later time. For a write, that may be after its
// caller has checked the end of the partition, and has written the same messages again. So Send does not abandon a write
// at once, but waits up to writeTime for the response.
func (c *Cluster) Send(ctx context.Context, address string, request kafka.Request) (kafka.Response, error) {
	if err := ctx.Err(); err != nil { // acquire does not check the context if there is an idle connection
		return nil, err
	}
	conn, err := c.acquire(ctx, address, request)
	if err != nil {
		return nil, err
	}
	return c.exchange(ctx, conn, request)
}

// exchange sends a request over an acquired connection, and releases the connection.
func (c *Cluster) exchange(ctx context.Context, conn *connection, request kafka.Request) (kafka.Response, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(requestTimeout)
	}
	type result struct {
		answer kafka.Response
		err    error
	}
	done := make(chan result, 1)
	go func() { // ends at the deadline, or when the connection is closed
		defer c.running.Done()
		defer c.ended(conn.address, request)
		var r result
		if r.err = conn.SetDeadline(deadline); r.err == nil {
			r.answer, r.err = conn.RoundTrip(request)
		}
		if r.err == nil {
			c.give(conn)
		} else {
			conn.Close()
			c.broke(conn.address)
		}
		done <- r
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.broke(conn.address)
			return nil, ctx.Err()
		}
		if _, writes := request.(*produce.Request); !writes {
			return nil, ctx.Err()
		}
		timeout := time.NewTimer(writeTime)
		defer timeout.Stop()
		select {
		case r := <-done:
			return r.answer, r.err
		case <-timeout.C:
			return nil, ctx.Err()
		}
	}
}

// acquire returns a connection to an address, an idle one if available. exchange releases it. It waits for the connection
// of a short request in flight rather than opening another one, which takes two or more round trips. A short request waits
// even if others are idle, so that few connections are used and the others are closed.
func (c *Cluster) acquire(ctx context.Context, address string, request kafka.Request) (*connection, error) {
	var patience *time.Timer
	for waited := false; ; {
		c.mutex.Lock()
		if c.closed {
			c.mutex.Unlock()
			return nil, net.ErrClosed
		}
		wait := c.short[address] > 0 && !waited
		var conn *connection
		if !wait || !isShort(request) {
			conn = c.pop(address)
		}
		if conn != nil || !wait {
			c.begin(address, request)
			c.mutex.Unlock()
			if conn != nil {
				return conn, nil
			}
			return c.open(ctx, address, request)
		}
		freed := c.freed
		c.mutex.Unlock()
		if patience == nil {
			patience = time.NewTimer(shortTime)
			defer patience.Stop()
		}
		select {
		case <-freed:
		case <-patience.C:
			waited = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// open opens a connection for a request.
func (c *Cluster) open(ctx context.Context, address string, request kafka.Request) (*connection, error) {
	conn, err := c.connect(ctx, address)
	if err != nil {
		c.ended(address, request)
		c.running.Done()
		c.broke(address)
		return nil, err
	}
	return conn, nil
}

// begin counts a request in flight. The caller has locked the mutex.
func (c *Cluster) begin(address string, request kafka.Request) {
	c.running.Add(1)
	if isShort(request) {
		c.short[address]++
	}
}

// ended undoes begin, and wakes callers that wait for a connection.
func (c *Cluster) ended(address string, request kafka.Request) {
	if !isShort(request) {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.short[address]--
	close(c.freed)
	c.freed = make(chan struct{})
}

// isShort reports whether a broker answers a request from memory.
func isShort(request kafka.Request) bool {
	switch request.ApiKey() {
	case protocol.Metadata, protocol.FindCoordinator, protocol.Heartbeat, protocol.ListOffsets, protocol.DescribeGroups,
		protocol.DescribeConfigs:
		return true
	}
	return false
}

// acquireAny returns an idle connection to any broker, or nil; then the returned address, if any, may soon have one.
func (c *Cluster) acquireAny(request kafka.Request) (conn *connection, soon string, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return nil, "", net.ErrClosed
	}
	for address := range c.idle {
		if isShort(request) && c.short[address] > 0 {
			continue
		}
		if conn := c.pop(address); conn != nil {
			c.begin(address, request)
			return conn, "", nil
		}
	}
	for address, n := range c.short {
		if n > 0 {
			return nil, address, nil
		}
	}
	return nil, "", nil
}

// pop removes and returns the most recently used idle connection to an address, and closes stale ones.
func (c *Cluster) pop(address string) *connection {
	for now := time.Now(); len(c.idle[address]) > 0; {
		list := c.idle[address]
		conn := list[len(list)-1]
		if c.idle[address] = list[:len(list)-1]; !conn.stale(now) {
			return conn
		}
		conn.Close()
	}
	delete(c.idle, address)
	return nil
}

// give returns a connection to the pool.
func (c *Cluster) give(conn *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	conn.used = time.Now()
	if c.closed || conn.stale(conn.used) {
		conn.Close()
		return
	}
	list := c.idle[conn.address] // the oldest idle connection is the first
	for len(list) > 0 && (list[0].stale(conn.used) || conn.used.Sub(list[0].used) > spareTime) {
		list[0].Close()
		list = list[1:]
	}
	c.idle[conn.address] = append(list, conn)
}

// broke invalidates the metadata, and closes the idle connections to an address: its broker fails, and its partitions may
// have new leaders.
func (c *Cluster) broke(address string) {
	c.Forget("")
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, conn := range c.idle[address] {
		conn.Close()
	}
	delete(c.idle, address)
}

// Close closes all connections, and waits for the requests in flight. The caller of New has closed their connections.
func (c *Cluster) Close() {
	c.mutex.Lock()
	c.closed = true
	for _, list := range c.idle {
		for _, conn := range list {
			conn.Close()
		}
	}
	clear(c.idle)
	c.mutex.Unlock()
	c.running.Wait()
}

// connect opens a connection, negotiates API versions, and logs in.
func (c *Cluster) connect(ctx context.Context, address string) (conn *connection, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	plain, err := c.options.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { plain.Close() })
	conn = &connection{Conn: protocol.NewConn(plain, c.options.ClientID), address: address}
	if err = conn.negotiate(); err == nil && c.options.SASL != nil {
		err = conn.login(ctx, c.options.SASL)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// negotiate selects the latest version of each API that both sides support.
func (c *connection) negotiate() error {
	message, err := c.RoundTrip(&apiversions.Request{})
	if err != nil {
		return err
	}
	answer := message.(*apiversions.Response)
	if answer.ErrorCode != 0 {
		return fmt.Errorf("negotiate versions with %s: %w", c.address, kafka.Error(answer.ErrorCode))
	}
	versions := make(map[protocol.ApiKey]int16, len(answer.ApiKeys))
	for _, k := range answer.ApiKeys {
		key := protocol.ApiKey(k.ApiKey)
		latest := k.MaxVersion
		if last, known := usable(key); known {
			latest = min(latest, last)
		}
		versions[key] = key.SelectVersion(k.MinVersion, latest)
		if key == describeClusterKey {
			versions[key] = min(k.MaxVersion, withBrokersDown)
		}
	}
	c.SetVersions(versions)
	return nil
}

// usable returns the latest version of a consumer group API that kafka-go encodes correctly: it encodes strings of later
// SyncGroup versions incorrectly, and later versions of the others add nothing needed.
func usable(key protocol.ApiKey) (version int16, known bool) {
	switch key {
	case protocol.JoinGroup:
		return 5, true
	case protocol.SyncGroup:
		return 3, true
	case protocol.LeaveGroup:
		return 2, true
	}
	return 0, false
}

// login authenticates with SASL.
func (c *connection) login(ctx context.Context, mechanism sasl.Mechanism) error {
	host, port, err := net.SplitHostPort(c.address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	began := time.Now()
	message, err := c.RoundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return err
	}
	if code := message.(*saslhandshake.Response).ErrorCode; code != 0 {
		return kafka.Error(code)
	}
	session, state, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: number}))
	for done := false; err == nil && !done; {
		var answer *saslauthenticate.Response
		if answer, err = c.authenticate(state); err != nil {
			return err
		}
		if life := time.Duration(answer.SessionLifetimeMs) * time.Millisecond; life > 0 {
			c.ends = began.Add(life * 4 / 5) // the rest is for a request in flight
		}
		done, state, err = session.Next(ctx, answer.AuthBytes)
	}
	return err
}

// authenticate sends one message of a login.
func (c *connection) authenticate(state []byte) (*saslauthenticate.Response, error) {
	message, err := c.RoundTrip(&saslauthenticate.Request{AuthBytes: state})
	if errors.Is(err, io.EOF) {
		return nil, kafka.SASLAuthenticationFailed // brokers before Kafka 1.0 close the connection instead
	}
	if err != nil {
		return nil, err
	}
	answer := message.(*saslauthenticate.Response)
	if answer.ErrorCode != 0 {
		return nil, fmt.Errorf("%w: %s", kafka.Error(answer.ErrorCode), answer.ErrorMessage)
	}
	return answer, nil
}
