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

	"github.com/stagewise/stagewise/internal/kafkalog/sticky"
)

const (
	// sessionTime is how long a group's coordinator waits for a heartbeat before it gives the member's partitions to others.
	// Brokers accept 6 s to 30 min (group.min.session.timeout.ms, group.max.session.timeout.ms).
	sessionTime = 10 * time.Second
	// heartbeatTime is the time between two heartbeats. It is also how late a member learns that others joined or left. Kafka
	// advises at most a third of the session.
	heartbeatTime = time.Second
	// watchTime is the time between two checks whether the topic's number of partitions has changed.
	watchTime = 30 * time.Second
	// rejoinTime is how long kafka-go waits after an error before it joins again. Its default of 5 s is too long: a broker with
	// its first group refuses for about a second, until it has created the topic of the offsets.
	rejoinTime = 100 * time.Millisecond
	// leaveTime limits how long a leaving member waits for a rebalance under way, or for a coordinator that does not answer.
	leaveTime = 3 * time.Second
	// noHeartbeat is an interval so long that kafka-go sends no heartbeats.
	noHeartbeat = (math.MaxInt32 - 1) * time.Millisecond
)

// Member is a member of a consumer group, which divides the partitions of one topic among its members. Its methods may be
// called from any goroutine. Made by [Log.Join].
//
// kafka-go's ConsumerGroup joins and leaves the group. Heartbeats and the check for new partitions are done here: kafka-go
// would end the membership after one failed request, without saying why.
type Member struct {
	log          *Log
	group, topic string
	size         int // partitions that one member should have together: see JoinGroups
	changed      chan struct{}
	leave        func() error
	commits      sync.WaitGroup // that are under way
	expiry       *time.Timer    // fires when the session may have expired

	mu         sync.Mutex
	assigned   []int     // the partitions of the latest generation
	generation int32     // the latest generation
	id         string    // of this member in it
	heard      time.Time // when the last accepted heartbeat was sent; zero: the coordinator does not know this member
	divided    int       // how many partitions this member divided as leader of the latest generation, or notLeader
	announced  []int     // Owned at the last signal on changed
	leaving    bool
	ended      bool
	err        error
}

// notLeader is the value of Member.divided in members that are not the leader.
const notLeader = -1

// Join starts a membership in a consumer group for the partitions of one topic, and returns without waiting. The membership
// lasts until Leave, or until Err returns an error; transient errors of the brokers are retried. All members of a group must
// name the same topic.
func (l *Log) Join(group, topic string) *Member { return l.JoinGroups(group, topic, 1) }

// JoinGroups is Join for members of which each should have whole groups of that many partitions, in the order of their numbers.
func (l *Log) JoinGroups(group, topic string, size int) *Member {
	ctx, leave := context.WithCancel(l.ctx)
	m := &Member{log: l, group: group, topic: topic, size: size, changed: make(chan struct{}, 1), divided: notLeader}
	m.expiry = time.AfterFunc(l.session, func() { m.update(func() {}) })
	left := make(chan error, 1)
	go func() {
		defer leave()
		left <- m.run(ctx)
	}()
	m.leave = sync.OnceValue(func() error {
		m.mu.Lock()
		m.leaving = true
		m.mu.Unlock()
		m.commits.Wait()
		leave()
		return <-left
	})
	return m
}

// Owned returns this member's partitions, ascending. It is empty before the first assignment, and when the session may have
// expired, because others may own the partitions then. During a rebalance the member still owns its earlier partitions.
func (m *Member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned())
}

func (m *Member) owned() []int {
	if m.ended || m.heard.IsZero() || time.Since(m.heard) >= m.log.session {
		return nil
	}
	return m.assigned
}

// Changed returns a channel that receives a value after Owned has changed and after the membership has ended. Changes close
// together may give one value.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// Err returns the error that ended the membership: an *AccessError, ErrUnknownTopic, ErrClosed, or another permanent error of
// the brokers. It is nil during the membership and after Leave.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Commit commits offsets of this member's partitions, given as the offset of the next message by partition, for people's tools that show
// how far a group is behind: nothing here reads them. It returns at once, and calls done with the result, from another goroutine. It
// tries once: the next offsets say more than these.
func (m *Member) Commit(offsets map[int]int64, done func(error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving || m.ended {
		return
	}
	request := &kafka.OffsetCommitRequest{GroupID: m.group, GenerationID: int(m.generation), MemberID: m.id}
	commits := make([]kafka.OffsetCommit, 0, len(offsets))
	for partition, offset := range offsets {
		commits = append(commits, kafka.OffsetCommit{Partition: partition, Offset: offset})
	}
	request.Topics = map[string][]kafka.OffsetCommit{m.topic: commits}
	m.commits.Go(func() { done(m.commit(request)) })
}

func (m *Member) commit(request *kafka.OffsetCommitRequest) error {
	ctx, cancel := context.WithTimeout(m.log.ctx, m.log.leave)
	defer cancel()
	response, err := m.log.client.OffsetCommit(ctx, request)
	if err != nil {
		return err
	}
	for _, partition := range response.Topics[m.topic] {
		if partition.Error != nil {
			return fmt.Errorf("%s[%d]: %w", m.topic, partition.Partition, partition.Error)
		}
	}
	return nil
}

// Leave leaves the group, so that others take over at once, and ends the member's goroutines. It takes a few seconds at most. An
// error means that the coordinator did not answer: others take over when the session expires.
func (m *Member) Leave() error { return m.leave() }

// update changes the state of the membership, and signals on changed if that changes Owned.
func (m *Member) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	if owned := m.owned(); !slices.Equal(owned, m.announced) {
		m.announced = owned
		m.signal()
	}
}

func (m *Member) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// run runs the membership until ctx ends or a permanent error. It returns an error only if leaving the group failed.
func (m *Member) run(ctx context.Context) error {
	defer m.expiry.Stop()
	// kafka-go's Close waits for the request under way, so its connections close by a context of their own.
	connected, cut := context.WithCancel(m.log.ctx)
	defer cut()

	// kafka-go would treat an unknown topic as one without partitions.
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
		HeartbeatInterval: noHeartbeat, // beat sends them
		SessionTimeout:    m.log.session,
		RebalanceTimeout:  m.log.session, // a member that does not rejoin within it has missed its heartbeats too
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
	m.end(ctx, err) // before others can own the partitions
	timeout := time.AfterFunc(m.log.leave, cut)
	_ = group.Close() // never fails
	<-ended
	if !timeout.Stop() {
		return fmt.Errorf("leave group %s: no answer within %v", m.group, m.log.leave)
	}
	return nil
}

func (m *Member) end(ctx context.Context, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.log.ctx.Err() != nil:
		err = context.Cause(m.log.ctx)
	case ctx.Err() != nil: // left
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("member of group %s: %w", m.group, err)
	}
	m.ended, m.err = true, err
	m.signal()
}

// dialer returns a dialer whose connections close when a context ends.
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

// belong joins generation after generation, until ctx ends or a permanent error.
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
		m.update(func() { m.assigned, m.generation, m.id = m.partitionsOf(g), g.ID, g.MemberID })
		// Each of these ends with the generation, and ends the generation when it returns. They must not end with ctx: kafka-go
		// would join again before group is closed.
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

// beat sends heartbeats until the next rebalance or until ctx ends.
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

// heartbeat sends one heartbeat and reports whether to join again.
func (m *Member) heartbeat(ctx context.Context, g *kafka.Generation) (again bool, err error) {
	sent := time.Now()
	err = m.sendHeartbeat(ctx, g)
	switch {
	case err == nil, errors.Is(err, kafka.RebalanceInProgress):
		m.update(func() { m.heard = sent })
		m.expiry.Reset(time.Until(sent.Add(m.log.session)))
	case errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.IllegalGeneration):
		m.update(func() { m.heard = time.Time{} }) // the group has continued without this member
	default:
		return false, err
	}
	return err != nil, nil
}

// sendHeartbeat finds the coordinator each time, as kafka-go does for the other group requests. kafka-go itself would send a
// heartbeat to any broker.
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
	coordinator := net.JoinHostPort(found.Coordinator.Host, strconv.Itoa(found.Coordinator.Port))
	request := &heartbeat.Request{GroupID: g.GroupID, GenerationID: g.ID, MemberID: g.MemberID}
	message, err := m.log.cluster.Send(ctx, coordinator, request)
	if err != nil {
		return err
	}
	// Since version 1 the throttle time comes before the error code. kafka-go reads the fields in the order of version 0, so the
	// error code is in the lower half of its throttle time.
	if code := int16(message.(*heartbeat.Response).ThrottleTimeMs); code != 0 {
		return kafka.Error(code)
	}
	return nil
}

// watch returns when the topic's number of partitions is no longer the one that this member divided as leader, or when ctx ends.
func (m *Member) watch(ctx context.Context) error {
	m.mu.Lock()
	divided := m.divided
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
		case divided != notLeader && n != divided:
			return nil
		}
	}
}

// partitions counts the partitions of the topic, with and without a leader. It waits for a topic that was created just now.
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

// balancer is kafka-go's interface to the assignment: each member sends its claim with each request to join, and the member that
// the coordinator chose as leader receives all claims.
type balancer struct{ *Member }

// ProtocolName differs from the name of Kafka's own sticky assignor, whose claims have another format. The coordinator refuses
// members that bring only that one.
func (b balancer) ProtocolName() string { return "stagewise-sticky" }

// UserData returns this member's claim.
func (b balancer) UserData() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.divided = notLeader
	return sticky.Claim{Generation: b.generation, Partitions: b.assigned}.Encode()
}

// AssignGroups divides the partitions among the members. Only the leader calls it.
func (b balancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	claims := make(map[string]sticky.Claim, len(members))
	for _, m := range members {
		claims[m.ID] = sticky.Decode(m.UserData)
	}
	var ids []int
	for _, p := range partitions {
		if p.Topic == b.topic {
			ids = append(ids, p.ID)
		}
	}
	b.mu.Lock()
	b.divided = len(ids)
	b.mu.Unlock()
	// The result names every member, also those without a partition: kafka-go can't read the answer that they would get
	// otherwise.
	assignments := kafka.GroupMemberAssignments{}
	for id, share := range sticky.Groups(ids, claims, b.size) {
		assignments[id] = map[string][]int{b.topic: share}
	}
	return assignments
}
