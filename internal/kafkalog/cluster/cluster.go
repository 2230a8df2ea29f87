// Package cluster sends requests to the brokers of a Kafka cluster: each to the broker that can answer it, over connections that are
// kept.
//
// It takes the place of kafka-go's Transport, which asks for the layout of all topics every few seconds, answers requests for the
// layout from a copy that may be seconds old, and can only be made to ask again by closing all of its connections. A Cluster asks
// about the topics that it sends requests to, when it doesn't know their leaders, and keeps the connections when a leader moves. While
// nothing fails it opens none, unless more requests are under way at once than ever before: a connection is for one request at a time,
// so that a long poll delays no other.
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

// Options say how the brokers are reached.
type Options struct {
	// Addresses are host:port, at least one of which must answer.
	Addresses []string
	// ClientID is our name in the brokers' logs and quotas.
	ClientID string
	// Dial opens a connection to an address. It ends when its context ends, and whoever passes it closes the connection, also under
	// a request, before Close.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// SASL is how each connection logs in. nil: it does not.
	SASL sasl.Mechanism
}

// Cluster is the brokers of a cluster. Its methods may be called from any goroutine. Made by [New].
type Cluster struct {
	options Options
	running sync.WaitGroup // requests that are under way

	mutex  sync.Mutex
	closed bool
	idle   map[string][]*connection // by address, the last used at the end
	short  map[string]int           // requests under way that brokers answer at once, by address
	freed  chan struct{}            // closed when one of them has ended, and then replaced
	layout protocol.Cluster         // as far as it is known. Its maps are replaced, not changed
	learnt time.Time                // when the oldest part of the layout was asked for
}

// New returns the cluster with these brokers. It connects when the first request is sent.
func New(o Options) *Cluster {
	return &Cluster{options: o, idle: map[string][]*connection{}, short: map[string]int{}, freed: make(chan struct{})}
}

// RoundTrip sends a request to the broker that can answer it, and returns the answer. The layout of the cluster (metadata.Request) is
// always asked for. It ignores the address: it makes a Cluster a [kafka.RoundTripper].
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

// split sends the parts of a request, all at once, and joins the answers.
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
	results := make([]any, len(parts)) // of each a Message or an error
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

// route sends a request that one broker can answer.
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

// Leader returns the address of the broker that a request is for, or none if any may answer.
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

// coordinator asks for the address of a consumer group's coordinator.
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

// sendToAny sends a request to a broker that it has a connection to, or else to the first that can be reached, in random order.
func (c *Cluster) sendToAny(ctx context.Context, request kafka.Request) (answer kafka.Response, err error) {
	conn, soon, err := c.takeAny(request)
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
		if conn, err = c.take(ctx, address, request); err == nil {
			return c.exchange(ctx, conn, request)
		}
		if errors.As(err, new(kafka.Error)) || ctx.Err() != nil { // another broker would refuse us too
			break
		}
	}
	return nil, err
}

// addresses returns the addresses of all brokers that are known.
func (c *Cluster) addresses() []string {
	list := slices.Clone(c.options.Addresses)
	for _, broker := range c.known().Brokers {
		if address := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))); !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	return list
}
