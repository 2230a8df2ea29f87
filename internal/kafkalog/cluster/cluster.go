// Package cluster sends requests to the brokers of a Kafka cluster, each to the broker that can answer it, over a pool of
// connections.
//
// It replaces kafka-go's Transport, which requests the metadata of all topics every few seconds, answers metadata requests
// from a cache that may be seconds old, and can only be made to refresh it by closing all of its connections. A Cluster
// requests the metadata of the topics that it sends requests to, when it doesn't know their leaders, and keeps the
// connections when a leader moves. Without errors it opens no connections, unless more requests are in flight than ever
// before: a connection carries one request at a time, so that a long poll delays no other request.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/sasl"
)

// Options are how the brokers are reached.
type Options struct {
	// Addresses are host:port, at least one of which must answer.
	Addresses []string
	// ClientID identifies us in the brokers' logs and quotas.
	ClientID string
	// Dial opens a connection to an address. It must return when its context ends. The caller of New closes the connections,
	// even during a request, before Close.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// SASL is the login mechanism of each connection; nil: none.
	SASL sasl.Mechanism
}

// Cluster is a client of a Kafka cluster. It is safe for concurrent use. Create it with [New].
type Cluster struct {
	options Options
	running sync.WaitGroup // requests in flight

	mutex  sync.Mutex
	closed bool
	idle   map[string][]*connection // by address, most recently used last
	short  map[string]int           // number of short requests in flight, by address
	freed  chan struct{}            // closed when a short request has ended, and then replaced
	layout protocol.Cluster         // cached metadata. Its maps are replaced, never modified
	learnt time.Time                // time of the oldest part of the metadata
}

// New returns a client of the cluster. It connects when the first request is sent.
func New(o Options) *Cluster {
	return &Cluster{options: o, idle: map[string][]*connection{}, short: map[string]int{}, freed: make(chan struct{})}
}

// RoundTrip sends a request to the broker that can answer it, and returns the response. Metadata requests are never
// answered from the cache. It ignores the address, and makes a Cluster a [kafka.RoundTripper].
func (c *Cluster) RoundTrip(ctx context.Context, _ net.Addr, request kafka.Request) (kafka.Response, error) {
	switch r := request.(type) {
	case *metadata.Request:
		answer, _, err := c.ask(ctx, r)
		if err != nil {
			return nil, err
		}
		return answer, nil
	case protocol.Splitter:
		return c.split(ctx, r)
	}
	return c.route(ctx, request)
}

// split sends the parts of a request concurrently, and merges the responses.
func (c *Cluster) split(ctx context.Context, request protocol.Splitter) (kafka.Response, error) {
	var parts []protocol.Message
	var merger protocol.Merger
	err := c.find(ctx, func(layout protocol.Cluster) (err error) {
		parts, merger, err = request.Split(layout)
		return err
	})
	if err != nil {
		return nil, err
	}
	results := make([]any, len(parts)) // a Message or an error for each part
	var sent sync.WaitGroup
	for i, part := range parts {
		sent.Go(func() {
			answer, err := c.route(ctx, part)
			if results[i] = answer; err != nil {
				results[i] = err
			}
		})
	}
	sent.Wait()
	return merger.Merge(parts, results)
}

// route sends a request that a single broker can answer.
func (c *Cluster) route(ctx context.Context, request kafka.Request) (kafka.Response, error) {
	var address string
	var err error
	switch r := request.(type) {
	case protocol.BrokerMessage:
		address, err = c.Leader(ctx, r)
	case protocol.GroupMessage:
		address, err = c.coordinator(ctx, r.Group())
	}
	switch {
	case err != nil:
		return nil, err
	case address == "":
		return c.sendToAny(ctx, request)
	}
	return c.Send(ctx, address, request)
}

// Leader returns the address of the broker for a request, or "" if any broker can answer it.
func (c *Cluster) Leader(ctx context.Context, request protocol.BrokerMessage) (address string, err error) {
	err = c.find(ctx, func(layout protocol.Cluster) error {
		broker, err := request.Broker(layout)
		switch {
		case err != nil:
			return err
		case len(layout.Brokers) == 0:
			return errNoLayout
		case broker.Host != "":
			address = net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
		}
		return nil
	})
	return address, err
}

// coordinator requests the address of a consumer group's coordinator.
func (c *Cluster) coordinator(ctx context.Context, group string) (address string, err error) {
	answer, err := c.sendToAny(ctx, &findcoordinator.Request{Key: group, KeyType: int8(kafka.CoordinatorKeyTypeConsumer)})
	if err != nil {
		return "", err
	}
	found := answer.(*findcoordinator.Response)
	if found.ErrorCode != 0 {
		return "", kafka.Error(found.ErrorCode)
	}
	return net.JoinHostPort(found.Host, strconv.Itoa(int(found.Port))), nil
}

// sendToAny sends a request over a connection to any broker, or else to the first reachable broker, in random order.
func (c *Cluster) sendToAny(ctx context.Context, request kafka.Request) (answer kafka.Response, err error) {
	conn, soon, err := c.acquireAny(request)
	switch {
	case err != nil:
		return nil, err
	case conn != nil:
		return c.exchange(ctx, conn, request)
	}
	addresses := c.addresses()
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	if i := slices.Index(addresses, soon); i > 0 {
		addresses[0], addresses[i] = addresses[i], addresses[0]
	}
	err = fmt.Errorf("no address of a broker: %w", net.ErrClosed)
	for _, address := range addresses {
		if conn, err = c.acquire(ctx, address, request); err == nil {
			return c.exchange(ctx, conn, request)
		}
		if errors.As(err, new(kafka.Error)) || ctx.Err() != nil { // another broker would also reject the request
			break
		}
	}
	return nil, err
}

// addresses returns the addresses of all known brokers.
func (c *Cluster) addresses() []string {
	list := slices.Clone(c.options.Addresses)
	for _, broker := range c.known().Brokers {
		if address := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))); !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	return list
}
