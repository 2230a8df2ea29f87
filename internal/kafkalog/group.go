package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
)

const (
	// sessionTime is how long the coordinator of a group may hear nothing of a member before it gives the member's partitions
	// to others. Brokers take from 6 s to 30 min (group.min.session.timeout.ms, group.max.session.timeout.ms).
	sessionTime = 10 * time.Second
	// heartbeatTime is how often a member lets the coordinator hear of it, and how late it learns that others came or went.
	// Kafka advises a third of the session at most.
	heartbeatTime = time.Second
	// watchTime is how often a member looks whether its topic has more partitions now.
	watchTime = 30 * time.Second
	// rejoinTime is what kafka-go lets pass before it joins again after an error. Its default is 5 s, and a broker that hosts
	// its first group ever refuses until the topic of the offsets is there, about a second.
	rejoinTime = 100 * time.Millisecond
	// partingTime is how long a member that leaves waits for a rebalance under way, and for a coordinator that may be silent.
	partingTime = 3 * time.Second
	// longest is what kafka-go takes for never.
	longest = (math.MaxInt32 - 1) * time.Millisecond
)

// Member is a member of a consumer group, which divides the partitions of one topic among those who are in it. Its methods
// may be called from any goroutine.
//
// kafka-go's ConsumerGroup joins and leaves. What goes on between a join and the next is done here: kafka-go ends the
// membership when a single heartbeat or look at the partitions fails, and is not told then why.
type Member struct {
	log          *Log
	group, topic string
	changed      chan struct{}
	leave        func() error
	expiry       *time.Timer // fires when the session may have expired

	mu         sync.Mutex
	assigned   []int     // by the newest generation
	generation int32     // that generation
	heard      time.Time // when the newest heartbeat was sent that the coordinator took; zero: it does not know this member
	counted    int       // how many partitions this member has divided as the leader of the newest generation, or notLeader
	told       []int     // what Owned was when Changed last received
	over       bool
	err        error
}

// notLeader is how many partitions a member has divided that was not asked to.
const notLeader = -1

// Join becomes a member of a consumer group for the partitions of one topic, and goes on being one until Leave, or until Err
// says why not. It waits out trouble with the brokers, and does not itself wait. No offsets are committed. Members of a group
// name the same topic.
func (l *Log) Join(group, topic string) *Member {
	ctx, leave := context.WithCancel(l.ctx)
	m := &Member{log: l, group: group, topic: topic, changed: make(chan struct{}, 1), counted: notLeader}
	m.expiry = time.AfterFunc(l.session, func() { m.update(func() {}) })
	parted := make(chan error, 1)
	go func() {
		defer leave()
		parted <- m.run(ctx)
	}()
	m.leave = sync.OnceValue(func() error {
		leave()
		return <-parted
	})
	return m
}

// Owned returns the partitions that are this member's now, ascending: none before the first assignment, and none when the
// session may have expired, so that others may have them. While the group divides anew, those of before are still owned.
func (m *Member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned())
}

func (m *Member) owned() []int {
	if m.over || m.heard.IsZero() || time.Since(m.heard) >= m.log.session {
		return nil
	}
	return m.assigned
}

// Changed receives after Owned has changed, and when the membership has ended; once for changes that come together.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// Err returns what ended the membership for good: no authorisation, ErrUnknownTopic, ErrClosed. It is nil while it goes on,
// and after Leave.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Leave leaves the group, so that others take over at once, and ends the member's goroutines. It takes a few seconds at most.
// Its error says that the coordinator did not answer: others take over when the session expires.
func (m *Member) Leave() error { return m.leave() }

// update changes what is known of the membership, and tells of it when that changes what is owned.
func (m *Member) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	if owned := m.owned(); !slices.Equal(owned, m.told) {
		m.told = owned
		m.signal()
	}
}

func (m *Member) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// run is a membership from its begin to its end. It returns what was wrong with the parting.
func (m *Member) run(ctx context.Context) error {
	defer m.expiry.Stop()
	// kafka-go's Close waits for the request that is under way, so its connections have an end of their own.
	connected, cut := context.WithCancel(m.log.ctx)
	defer cut()

	// kafka-go takes a topic that is not there for one without partitions.
	if _, err := m.partitions(ctx); err != nil {
		m.end(ctx, err)
		return nil
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                m.group,
		Brokers:           m.log.addresses,
		Dialer:            m.dialer(connected),
		Topics:            []string{m.topic},
		GroupBalancers:    []kafka.GroupBalancer{balancer{m}},
		HeartbeatInterval: longest, // beat does it
		SessionTimeout:    m.log.session,
		RebalanceTimeout:  m.log.session, // whoever does not join again within it has missed its heartbeats too
		JoinGroupBackoff:  rejoinTime,
	})
	if err != nil {
		m.end(ctx, err)
		return nil
	}

	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- m.belong(ctx, group)
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	m.end(ctx, err) // before others can have the partitions
	patience := time.AfterFunc(m.log.parting, cut)
	_ = group.Close() // never fails
	<-ended
	if !patience.Stop() {
		return fmt.Errorf("leave group %s: no answer within %v", m.group, m.log.parting)
	}
	return nil
}

func (m *Member) end(ctx context.Context, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.log.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil: // left
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("member of group %s: %w", m.group, err)
	}
	m.over, m.err = true, err
	m.signal()
}

// dialer makes connections that end with a context.
func (m *Member) dialer(connected context.Context) *kafka.Dialer {
	d := m.log.dialer()
	dial := d.DialFunc
	d.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(connected, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return closeWith(connected, conn), nil
	}
	return d
}

// belong goes from generation to generation, until ctx ends or something that will not pass.
func (m *Member) belong(ctx context.Context, group *kafka.ConsumerGroup) error {
	for {
		var g *kafka.Generation
		err := m.log.retry(ctx, "join group "+m.group, func(ctx context.Context) (err error) {
			g, err = group.Next(ctx)
			return err
		})
		if err != nil {
			return err
		}
		m.update(func() { m.assigned, m.generation = m.partitionsOf(g), g.ID })
		// Both end with the generation, and end it. They do not end with ctx: kafka-go would join again before it is closed.
		results := make(chan error, 2)
		g.Start(func(ctx context.Context) { results <- m.beat(ctx, g) })
		g.Start(func(ctx context.Context) { results <- m.watch(ctx) })
		if err := errors.Join(<-results, <-results); err != nil {
			return err
		}
	}
}

func (m *Member) partitionsOf(g *kafka.Generation) []int {
	var list []int
	for _, a := range g.Assignments[m.topic] {
		list = append(list, a.ID)
	}
	slices.Sort(list)
	return list
}

// beat sends heartbeats until the group divides anew or ctx ends.
func (m *Member) beat(ctx context.Context, g *kafka.Generation) error {
	tick := time.NewTicker(m.log.heartbeat)
	defer tick.Stop()
	for {
		var again bool
		err := m.log.retry(ctx, "stay in group "+m.group, func(ctx context.Context) (err error) {
			again, err = m.heartbeat(ctx, g)
			return err
		})
		switch {
		case again || ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// heartbeat sends one heartbeat, and tells whether to join again.
func (m *Member) heartbeat(ctx context.Context, g *kafka.Generation) (again bool, err error) {
	sent := time.Now()
	err = m.sendHeartbeat(ctx, g)
	switch {
	case err == nil, errors.Is(err, kafka.RebalanceInProgress):
		m.update(func() { m.heard = sent })
		m.expiry.Reset(time.Until(sent.Add(m.log.session)))
	case errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.IllegalGeneration):
		m.update(func() { m.heard = time.Time{} }) // the group went on without this member
	default:
		return false, err
	}
	return err != nil, nil
}

// sendHeartbeat asks for the coordinator each time, as kafka-go does for the other requests of groups. A heartbeat it would
// send to any broker.
func (m *Member) sendHeartbeat(ctx context.Context, g *kafka.Generation) error {
	ctx, cancel := context.WithTimeout(ctx, m.log.session/3)
	defer cancel()
	found, err := m.log.client.FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: m.group, KeyType: kafka.CoordinatorKeyTypeConsumer})
	if err != nil {
		return err
	}
	if found.Error != nil {
		return found.Error
	}
	coordinator := kafka.TCP(net.JoinHostPort(found.Coordinator.Host, strconv.Itoa(found.Coordinator.Port)))
	request := &heartbeat.Request{GroupID: g.GroupID, GenerationID: g.ID, MemberID: g.MemberID}
	message, err := m.log.transport.RoundTrip(ctx, coordinator, request)
	if err != nil {
		return err
	}
	// Since version 1 the time to throttle comes before the error. kafka-go reads them in the order of version 0, so that the
	// error becomes the lower half of the time.
	if code := int16(message.(*heartbeat.Response).ThrottleTimeMs); code != 0 {
		return kafka.Error(code)
	}
	return nil
}

// watch looks at the topic until its number of partitions is not the one that this member has divided, or ctx ends.
func (m *Member) watch(ctx context.Context) error {
	m.mu.Lock()
	counted := m.counted
	m.mu.Unlock()
	tick := time.NewTicker(m.log.watch)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		n, err := m.partitions(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case counted != notLeader && n != counted:
			return nil
		}
	}
}

// partitions counts the partitions of the topic, with and without a leader, and waits for a topic that was made just now.
func (m *Member) partitions(ctx context.Context) (n int, err error) {
	err = m.log.retryOn(ctx, m.topic, "find topic "+m.topic, func(ctx context.Context) error {
		found, err := m.log.metadata(ctx, []string{m.topic})
		if err != nil {
			return err
		}
		n = len(found.Topics[0].Partitions)
		return found.Topics[0].Error
	})
	if err != nil {
		return 0, fmt.Errorf("find topic %s: %w", m.topic, err)
	}
	return n, nil
}

// balancer is how kafka-go has a group divided: each member sends its claim with each request to join, and the one that the
// coordinator made the leader is given them all.
type balancer struct{ *Member }

// ProtocolName is not that of Kafka's own sticky assignor, which claims in another format: who brings that is kept out.
func (b balancer) ProtocolName() string { return "stagewise-sticky" }

func (b balancer) UserData() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counted = notLeader
	return claim{Generation: b.generation, Partitions: b.assigned}.encode()
}

func (b balancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	claims := make(map[string]claim, len(members))
	for _, m := range members {
		claims[m.ID] = decodeClaim(m.UserData)
	}
	var ids []int
	for _, p := range partitions {
		if p.Topic == b.topic {
			ids = append(ids, p.ID)
		}
	}
	b.mu.Lock()
	b.counted = len(ids)
	b.mu.Unlock()
	// Every member is named, also with nothing to do: kafka-go can't read the answer that the others would get.
	assignments := kafka.GroupMemberAssignments{}
	for id, share := range assign(ids, claims) {
		assignments[id] = map[string][]int{b.topic: share}
	}
	return assignments
}
