package kafkalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// sessionTime is the session timeout of members. Brokers accept 6 s to 30 min (group.min.session.timeout.ms,
	// group.max.session.timeout.ms).
	sessionTime = 10 * time.Second
	// heartbeatTime is the heartbeat interval, and the maximum delay with which a member learns of a rebalance. Kafka
	// recommends at most a third of the session timeout.
	heartbeatTime = time.Second
	watchTime     = 30 * time.Second // the interval at which members check for added partitions
	// leaveTime limits the time that a leaving member waits for a rebalance in progress, or for an unavailable coordinator.
	leaveTime = 3 * time.Second
	// answerTime is the time that the coordinator may take to respond, in addition to the time that it waits for other members.
	answerTime = 5 * time.Second
)

// Member is a member of a consumer group, which divides the partitions of one topic among its members: see "Classic Consumer
// Group Protocol" in Kafka's documentation, and KIP-394 for member ids. It is safe for concurrent use. Create it with
// [Log.Join].
//
// It does not use kafka-go's ConsumerGroup, which hides when the coordinator last answered a heartbeat, hides heartbeats that
// it refuses, leaves the group when the coordinator is restarted, and can't leave it during a rebalance.
type Member struct {
	log          *Log
	group, topic string
	size         func(partitions int) int // number of partitions to assign together: see JoinGroups
	changed      chan struct{}
	leave        func() error
	commits      sync.WaitGroup // commits in flight
	expiry       *time.Timer    // fires when the session may have expired
	coordinator  atomic.Int32   // a node ID, or anyBroker if it is not known

	mu         sync.Mutex
	assigned   []int     // partitions of the latest generation
	generation int32     // the latest generation
	id         string    // of this member in it
	heard      time.Time // send time of the last successful heartbeat; zero: the coordinator does not know this member
	announced  []int     // Owned at the last signal on changed
	ended      bool      // it has left, is about to leave, or err ended it
	err        error
}

// protocolName differs from the names of Kafka's assignors, so the coordinator rejects members that support only those.
const (
	protocolType = "consumer"
	protocolName = "stagewise-sticky"
)

// Join joins a consumer group for the partitions of one topic, and returns without waiting. The membership lasts until
// Leave, or until Err returns an error; transient errors are retried. All members of a group must specify the same topic.
func (l *Log) Join(group, topic string) *Member {
	return l.JoinGroups(group, topic, func(int) int { return 1 })
}

// JoinGroups is Join for members that own whole groups of consecutive partitions. size returns the number of partitions in a group
// if the topic has the given number.
func (l *Log) JoinGroups(group, topic string, size func(partitions int) int) *Member {
	ctx, leave := context.WithCancel(l.ctx)
	m := &Member{log: l, group: group, topic: topic, size: size, changed: make(chan struct{}, 1)}
	m.coordinator.Store(anyBroker)
	m.expiry = time.AfterFunc(l.session, func() { m.update(func() {}) })
	left := make(chan error, 1)
	go func() {
		defer leave()
		left <- m.run(ctx)
	}()
	m.leave = sync.OnceValue(func() error {
		m.mu.Lock()
		m.ended = true
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
	if m.ended {
		return
	}
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation, request.MemberID = m.group, m.generation, m.id
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = m.topic
	for partition, offset := range offsets {
		commit := kmsg.NewOffsetCommitRequestTopicPartition()
		commit.Partition, commit.Offset = int32(partition), offset
		topic.Partitions = append(topic.Partitions, commit)
	}
	request.Topics = append(request.Topics, topic)
	m.commits.Go(func() {
		ctx, cancel := context.WithTimeout(m.log.ctx, m.log.leave)
		defer cancel()
		response, err := coordinate[*kmsg.OffsetCommitResponse](ctx, m, request)
		for i := 0; err == nil && i < len(response.Topics); i++ {
			for _, partition := range response.Topics[i].Partitions {
				if refused := failure(partition.ErrorCode); refused != nil && err == nil {
					err = fmt.Errorf("%s[%d]: %w", m.topic, partition.Partition, refused)
				}
			}
		}
		done(err)
	})
}

// coordinate sends a request to the coordinator of the group, and finds the coordinator first if it is not known.
func coordinate[R kmsg.Response](ctx context.Context, m *Member, request kmsg.Request) (response R, err error) {
	at := m.coordinator.Load()
	if at == anyBroker {
		if at, err = m.log.coordinator(ctx, m.group); err != nil {
			return response, err
		}
		m.coordinator.Store(at)
	}
	if response, err = send[R](ctx, m.log, at, request); err != nil {
		m.coordinator.Store(anyBroker)
	}
	return response, err
}

// coordinator finds the coordinator of a group.
func (l *Log) coordinator(ctx context.Context, group string) (int32, error) {
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.CoordinatorKey = group
	found, err := send[*kmsg.FindCoordinatorResponse](ctx, l, anyBroker, request)
	if err != nil {
		return anyBroker, err
	}
	return found.NodeID, failure(found.ErrorCode)
}

// answered returns the error of the coordinator's response. It forgets the coordinator after a temporary error, as another broker may
// be the coordinator now, and the member id if that is unknown.
func (m *Member) answered(code int16) error {
	err := failure(code)
	switch {
	case errors.Is(err, kafka.UnknownMemberId):
		m.update(func() { m.id = "" })
	case err != nil && kafka.Error(code).Temporary():
		m.coordinator.Store(anyBroker)
	}
	return err
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

// run maintains the membership until ctx ends or a permanent error occurs. It returns an error only if leaving the group failed.
func (m *Member) run(ctx context.Context) error {
	defer m.expiry.Stop()
	err := m.belong(ctx)
	switch {
	case m.log.ctx.Err() != nil:
		err = context.Cause(m.log.ctx)
	case ctx.Err() != nil: // left the group
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("member of group %s: %w", m.group, err)
	}
	m.mu.Lock() // before the partitions can have other owners
	m.ended, m.err = true, err
	m.signal()
	m.mu.Unlock()
	if m.id == "" || m.log.ctx.Err() != nil {
		return nil
	}
	leaving, cancel := context.WithTimeout(m.log.ctx, m.log.leave)
	defer cancel()
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group, request.MemberID = m.group, m.id
	request.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id}}
	// The coordinator may have no such member. The deadline of the connection may precede that of the context.
	_, err = coordinate[*kmsg.LeaveGroupResponse](leaving, m, request)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("leave group %s: no answer within %v", m.group, m.log.leave)
	}
	return nil
}

// belong joins one generation after another, until ctx ends or a permanent error occurs.
func (m *Member) belong(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := m.log.Partitions(ctx, m.topic) // it waits for a topic that was just created
		if err != nil {
			return err
		}
		if err := m.log.attempt(ctx, "", "join group "+m.group, m.join); err != nil {
			return err
		}
		if err := m.stay(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// join joins the next generation of the group, and waits until the other members have joined. Apart from Commit, only this
// goroutine uses m.id. A member that does not rejoin within the session timeout has also missed its heartbeats.
func (m *Member) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*m.log.session+answerTime) // the others join, and then the leader assigns
	defer cancel()
	enter := kmsg.NewPtrJoinGroupRequest()
	enter.Group, enter.MemberID, enter.ProtocolType = m.group, m.id, protocolType
	enter.SessionTimeoutMillis = int32(m.log.session.Milliseconds())
	enter.RebalanceTimeoutMillis = enter.SessionTimeoutMillis
	enter.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: protocolName, Metadata: claim{m.generation, m.assigned}.encode(m.topic)}}
	joined, err := coordinate[*kmsg.JoinGroupResponse](ctx, m, enter)
	if err != nil {
		return err
	}
	if kafka.Error(joined.ErrorCode) == kafka.MemberIDRequired { // a new member joins with the id that it is given: KIP-394
		enter.MemberID = joined.MemberID
		if joined, err = coordinate[*kmsg.JoinGroupResponse](ctx, m, enter); err != nil {
			return err
		}
	}
	if err := m.answered(joined.ErrorCode); err != nil {
		return err
	}
	m.update(func() { m.id = joined.MemberID })
	request := kmsg.NewPtrSyncGroupRequest()
	request.Group, request.Generation, request.MemberID = m.group, joined.Generation, m.id
	request.ProtocolType, request.Protocol = kmsg.StringPtr(protocolType), kmsg.StringPtr(protocolName)
	if joined.LeaderID == m.id {
		if request.GroupAssignment, err = m.divide(ctx, joined.Members); err != nil {
			return err
		}
	}
	response, err := coordinate[*kmsg.SyncGroupResponse](ctx, m, request)
	if err == nil {
		err = m.answered(response.ErrorCode)
	}
	if err != nil {
		return err
	}
	partitions, err := decodeAssignment(response.MemberAssignment)
	if err == nil {
		m.update(func() { m.assigned, m.generation = partitions, joined.Generation })
	}
	return err
}

// divide assigns the partitions of the topic to the members, according to their claims, as the leader of the group. All
// members get an assignment, even without partitions.
func (m *Member) divide(ctx context.Context, members []kmsg.JoinGroupResponseMember) (
	all []kmsg.SyncGroupRequestGroupAssignment, err error,
) {
	n, err := m.log.Partitions(ctx, m.topic)
	if err != nil {
		return nil, err
	}
	claims := make(map[string]claim, len(members))
	for _, member := range members {
		claims[member.MemberID] = decodeClaim(member.ProtocolMetadata)
	}
	for member, share := range assign(n, m.size(n), claims) {
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic = m.topic
		for _, p := range share {
			topic.Partitions = append(topic.Partitions, int32(p))
		}
		assignment := kmsg.NewConsumerMemberAssignment()
		assignment.Topics, assignment.UserData = append(assignment.Topics, topic), []byte{}
		all = append(all, kmsg.SyncGroupRequestGroupAssignment{MemberID: member, MemberAssignment: assignment.AppendTo(nil)})
	}
	return all, nil
}

// decodeAssignment returns the partitions of a member, of the one topic of its group.
func decodeAssignment(encoded []byte) (partitions []int, err error) {
	if len(encoded) == 0 { // an empty assignment
		return nil, nil
	}
	assignment := kmsg.NewConsumerMemberAssignment()
	if err := assignment.ReadFrom(encoded); err != nil {
		return nil, fmt.Errorf("decode the assignment of a member: %w", err)
	}
	for _, t := range assignment.Topics {
		for _, p := range t.Partitions {
			partitions = append(partitions, int(p))
		}
	}
	slices.Sort(partitions)
	return partitions, nil
}

// stay sends heartbeats until the group rebalances, or must because the topic no longer has the given number of partitions, or until ctx
// ends.
func (m *Member) stay(ctx context.Context, partitions int) error {
	tick := time.NewTicker(m.log.heartbeat)
	defer tick.Stop()
	for watched := time.Now(); ; {
		again := false
		err := m.log.attempt(ctx, "", "stay in group "+m.group, func(ctx context.Context) (err error) {
			again, err = m.heartbeat(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !again && time.Since(watched) >= m.log.watch {
			watched = time.Now()
			asking, cancel := context.WithTimeout(ctx, m.log.session/3)
			t, err := m.log.topic(asking, m.topic)
			cancel()
			again = (err == nil || unknown(err)) && len(t.Partitions) != partitions // partitions were added, or the topic is gone
		}
		if again {
			return nil
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
	ctx, cancel := context.WithTimeout(ctx, m.log.session/3)
	defer cancel()
	request := kmsg.NewPtrHeartbeatRequest()
	request.Group, request.Generation, request.MemberID = m.group, m.generation, m.id
	sent := time.Now()
	response, err := coordinate[*kmsg.HeartbeatResponse](ctx, m, request)
	if err == nil {
		err = m.answered(response.ErrorCode)
	}
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

// claim is what a member sends when it joins its group: its last assignment, and the generation of that assignment. The
// zero claim is that of a new member.
type claim struct {
	Generation int32
	Partitions []int
}

// encode returns the metadata of a member of a group for a topic, with the claim as its user data.
func (c claim) encode(topic string) []byte {
	data, _ := json.Marshal(c) // numbers have JSON
	return (&kmsg.ConsumerMemberMetadata{Topics: []string{topic}, UserData: data}).AppendTo(nil)
}

// decodeClaim returns the claim in the metadata of a member; the zero claim for metadata that it can't decode. At worst, partitions then
// move unnecessarily.
func decodeClaim(encoded []byte) (c claim) {
	var metadata kmsg.ConsumerMemberMetadata
	if metadata.ReadFrom(encoded) != nil || json.Unmarshal(metadata.UserData, &c) != nil {
		return claim{}
	}
	return c
}

// assign assigns n partitions to members according to their claims, by member id, in groups of size consecutive partitions. A group is
// claimed by its first partition. The shares differ by at most one group, each list is ascending, and only groups beyond a member's share
// move. If two members claim a group, the one with the later generation keeps it: the other missed a rebalance. assign is a pure
// function, so every leader computes the same assignment.
func assign(n, size int, claims map[string]claim) map[string][]int {
	size = max(size, 1)
	members := slices.Sorted(maps.Keys(claims))
	holders := make([]string, (n+size-1)/size) // by group; "": none
	for _, m := range members {
		for _, p := range claims[m].Partitions {
			if p < 0 || p >= n || p%size != 0 {
				continue
			}
			if holder := &holders[p/size]; *holder == "" || claims[m].Generation > claims[*holder].Generation {
				*holder = m
			}
		}
	}
	held := map[string][]int{}
	for group, m := range holders {
		held[m] = append(held[m], group)
	}
	// The members with the most groups get the larger shares, so that the fewest groups move.
	slices.SortStableFunc(members, func(a, b string) int { return cmp.Compare(len(held[b]), len(held[a])) })
	free := held[""]
	missing := map[string]int{}
	for i, m := range members {
		share := (len(holders) + len(members) - 1 - i) / len(members)
		keep := min(len(held[m]), share)
		missing[m] = share - keep
		free = append(free, held[m][keep:]...)
		held[m] = held[m][:keep:keep]
	}
	slices.Sort(free)
	shares := make(map[string][]int, len(members))
	for _, m := range members {
		groups := append(held[m], free[:missing[m]]...)
		free = free[missing[m]:]
		slices.Sort(groups)
		shares[m] = []int{}
		for _, group := range groups {
			for p := group * size; p < min((group+1)*size, n); p++ {
				shares[m] = append(shares[m], p)
			}
		}
	}
	return shares
}

// IsEmbedded reports whether the broker is embedded in a process: this one, or another one with a listener.
func (l *Log) IsEmbedded(ctx context.Context) (is bool, err error) {
	if l.Embedded() {
		return true, nil
	}
	err = l.retry(ctx, "", "ask which cluster it is", func(ctx context.Context) error {
		found, err := l.metadata(ctx, []string{})
		is = err == nil && found.ClusterID != nil && *found.ClusterID == clusterID
		return err
	})
	return is, err
}

// Owner is a member of a consumer group with its partitions.
type Owner struct {
	ID         string // member id assigned by the coordinator
	Host       string
	Partitions []int // ascending; nil before the first assignment
}

// Owners returns the members of a consumer group from its coordinator, ordered by host. A group that does not exist has
// none.
func (l *Log) Owners(ctx context.Context, group string) (owners []Owner, err error) {
	err = l.retry(ctx, "", "describe group "+group, func(ctx context.Context) error {
		owners = nil
		at, err := l.coordinator(ctx, group)
		if err != nil {
			return err
		}
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{group}
		response, err := send[*kmsg.DescribeGroupsResponse](ctx, l, at, request)
		if err != nil {
			return err
		}
		for _, g := range response.Groups {
			if err := failure(g.ErrorCode); err != nil {
				return err
			}
			for _, m := range g.Members {
				// Kafka has a slash before the host, as Java prints addresses, and the embedded broker a port after it.
				o := Owner{ID: m.MemberID, Host: strings.TrimPrefix(m.ClientHost, "/")}
				if host, _, err := net.SplitHostPort(o.Host); err == nil {
					o.Host = host
				}
				if o.Partitions, err = decodeAssignment(m.MemberAssignment); err != nil {
					return err
				}
				owners = append(owners, o)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(owners, func(a, b Owner) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID)) })
	return owners, nil
}

// Members returns the hosts of the members of a consumer group, one for each member, in order: see [Log.Owners].
func (l *Log) Members(ctx context.Context, group string) (hosts []string, err error) {
	owners, err := l.Owners(ctx, group)
	for _, o := range owners {
		hosts = append(hosts, o.Host)
	}
	return hosts, err
}
