package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/heartbeat"

	"github.com/stagewise/stagewise/internal/kafkalog/classic"
	"github.com/stagewise/stagewise/internal/kafkalog/sticky"
)

const (
	// sessionTime is the session timeout of members. Brokers accept 6 s to 30 min (group.min.session.timeout.ms,
	// group.max.session.timeout.ms).
	sessionTime = 10 * time.Second
	// heartbeatTime is the heartbeat interval, and the maximum delay with which a member learns of a rebalance. Kafka
	// recommends at most a third of the session timeout.
	heartbeatTime = time.Second
	// watchTime is the interval of checks for added partitions.
	watchTime = 30 * time.Second
	// leaveTime limits the time that a leaving member waits for a rebalance in progress, or for an unavailable coordinator.
	leaveTime = 3 * time.Second
)

// Member is a member of a consumer group, which divides the partitions of one topic among its members. It is safe for
// concurrent use. Create it with [Log.Join].
type Member struct {
	log          *Log
	group, topic string
	size         int // number of partitions to assign together: see JoinGroups
	changed      chan struct{}
	leave        func() error
	commits      sync.WaitGroup // commits in flight
	expiry       *time.Timer    // fires when the session may have expired

	mu         sync.Mutex
	assigned   []int     // partitions of the latest generation
	generation int32     // the latest generation
	id         string    // of this member in it
	heard      time.Time // send time of the last successful heartbeat; zero: the coordinator does not know this member
	divided    int       // number of partitions that this member assigned as leader of the latest generation, or notLeader
	announced  []int     // Owned at the last signal on changed
	leaving    bool
	ended      bool
	err        error
}

// protocolName differs from the name of Kafka's sticky assignor, whose user data has another format. The coordinator
// rejects members that only support that one.
const protocolName = "stagewise-sticky"

// notLeader is the value of Member.divided for members other than the leader.
const notLeader = -1

// Join joins a consumer group for the partitions of one topic, and returns without waiting. The membership lasts until
// Leave, or until Err returns an error; transient errors are retried. All members of a group must specify the same topic.
func (l *Log) Join(group, topic string) *Member { return l.JoinGroups(group, topic, 1) }

// JoinGroups is Join for members that should own whole groups of the given number of consecutive partitions.
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

// Owned returns this member's partitions, in ascending order. It is empty before the first assignment, and when the
// session may have expired, because the partitions may then have other owners. During a rebalance the member keeps its
// partitions.
func (m *Member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned()
}

func (m *Member) owned() []int {
	if m.ended || m.heard.IsZero() || time.Since(m.heard) >= m.log.session {
		return nil
	}
	return append([]int{}, m.assigned...)
}

// Changed returns a channel that receives a value after Owned has changed and after the membership has ended. Several
// changes may be signalled once.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// Err returns the error that ended the membership: an *AccessError, ErrUnknownTopic, ErrClosed, or another permanent error of
// the brokers. It is nil during the membership and after Leave.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Commit commits offsets of this member's partitions, by partition, each that of the next message. They are for monitoring
// tools that show consumer lag; nothing here reads them. It returns at once, and calls done with the result in another
// goroutine. It does not retry, because the next commit supersedes this one.
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

// Leave leaves the group, so that others take over at once, and stops the member's goroutines. It takes a few seconds at
// most. An error means that the coordinator did not respond: others take over when the session expires.
func (m *Member) Leave() error { return m.leave() }

// update changes the state of the membership, and signals on changed if Owned has changed.
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

// run maintains the membership until ctx ends or a permanent error. It returns an error only if leaving the group failed.
func (m *Member) run(ctx context.Context) error {
	defer m.expiry.Stop()
	err := m.belong(ctx)
	m.end(ctx, err) // before the partitions can have other owners
	if m.id == "" || m.log.ctx.Err() != nil {
		return nil
	}
	leaving, cancel := context.WithTimeout(m.log.ctx, m.log.leave)
	defer cancel()
	// An error means that the coordinator has no such member. The deadline of the connection may precede that of the context.
	err = m.protocol().Leave(leaving, m.id)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("leave group %s: no answer within %v", m.group, m.log.leave)
	}
	return nil
}

// protocol returns the group protocol of the member. A JoinGroup request is answered after the other members have joined,
// and uses its own connection during that time.
func (m *Member) protocol() classic.Group {
	return classic.Group{ID: m.group, Topic: m.topic, Protocol: protocolName, Session: m.log.session,
		Send: func(ctx context.Context, request kafka.Request) (kafka.Response, error) {
			return m.log.cluster.RoundTrip(ctx, nil, request)
		}}
}

func (m *Member) end(ctx context.Context, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.log.ctx.Err() != nil:
		err = context.Cause(m.log.ctx)
	case ctx.Err() != nil: // left the group
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("member of group %s: %w", m.group, err)
	}
	m.ended, m.err = true, err
	m.signal()
}

// belong joins one generation after the other, until ctx ends or a permanent error.
func (m *Member) belong(ctx context.Context) error {
	if _, err := m.partitions(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := m.log.retry(ctx, "join group "+m.group, m.join)
		if err != nil {
			return err
		}
		if err := m.stay(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stay returns when the group rebalances, or must rebalance.
func (m *Member) stay(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	watched := make(chan error, 1)
	go func() {
		defer end()
		watched <- m.watch(ctx)
	}()
	err := m.beat(ctx)
	end()
	return errors.Join(err, <-watched)
}

// join joins the next generation of the group. Apart from Commit, only this goroutine uses m.id.
func (m *Member) join(ctx context.Context) error {
	m.mu.Lock()
	m.divided = notLeader
	member, claim := m.id, sticky.Claim{Generation: m.generation, Partitions: m.assigned}
	m.mu.Unlock()
	encoded, err := claim.Encode()
	if err != nil {
		return err
	}
	g, err := m.protocol().Join(ctx, member, encoded, func(claims map[string][]byte) (map[string][]int, error) {
		return m.divide(ctx, claims)
	})
	m.update(func() {
		if m.id = g.Member; err == nil {
			m.assigned, m.generation = g.Partitions, g.Number
			slices.Sort(m.assigned)
		}
	})
	return err
}

// divide assigns the partitions of the topic to the members, according to their claims.
func (m *Member) divide(ctx context.Context, claims map[string][]byte) (map[string][]int, error) {
	n, err := m.partitions(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.divided = n
	m.mu.Unlock()
	decoded := make(map[string]sticky.Claim, len(claims))
	for id, claim := range claims {
		decoded[id] = sticky.Decode(claim)
	}
	all := make([]int, n)
	for p := range all {
		all[p] = p
	}
	return sticky.Groups(all, decoded, m.size), nil
}

// beat sends heartbeats until the next rebalance or until ctx ends.
func (m *Member) beat(ctx context.Context) error {
	tick := time.NewTicker(m.log.heartbeat)
	defer tick.Stop()
	for {
		var again bool
		err := m.log.retry(ctx, "stay in group "+m.group, func(ctx context.Context) (err error) {
			again, err = m.heartbeat(ctx)
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

// heartbeat sends one heartbeat and reports whether to rejoin.
func (m *Member) heartbeat(ctx context.Context) (again bool, err error) {
	sent := time.Now()
	err = m.sendHeartbeat(ctx)
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

// sendHeartbeat looks up the coordinator each time, like the other group requests. kafka-go itself would send a heartbeat
// to any broker.
func (m *Member) sendHeartbeat(ctx context.Context) error {
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
	request := &heartbeat.Request{GroupID: m.group, GenerationID: m.generation, MemberID: m.id}
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

// watch returns when the topic's number of partitions differs from the one that this member assigned as leader, or when
// ctx ends.
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

// partitions counts the partitions of the topic, including leaderless ones. It waits for a topic that was just created.
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
