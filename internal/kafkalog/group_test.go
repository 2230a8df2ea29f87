package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
)

// until waits for a condition on the owned partitions. It checks the condition only after a member has signalled a change.
func until(t *testing.T, what string, holds func() bool, members ...*Member) {
	t.Helper()
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(testContext(t).Done())}}
	for _, m := range members {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(m.Changed())})
	}
	for !holds() {
		if i, _, _ := reflect.Select(cases); i == 0 {
			for _, m := range members {
				t.Logf("%v, %v", m.Owned(), m.Err())
			}
			t.Fatalf("it never holds that %s", what)
		}
	}
}

func ownsAll(m *Member, n int) func() bool {
	return func() bool { return slices.Equal(m.Owned(), upTo(n)) }
}

// divided reports whether the members share n partitions evenly.
func divided(n int, members ...*Member) func() bool {
	return func() bool {
		var all []int
		for _, m := range members {
			owned := m.Owned()
			if len(owned) < n/len(members) || len(owned) > (n+len(members)-1)/len(members) {
				return false
			}
			all = append(all, owned...)
		}
		slices.Sort(all)
		return slices.Equal(all, upTo(n))
	}
}

// second opens another connection to the brokers of a log.
func second(t *testing.T, l *Log) *Log {
	t.Helper()
	other := connect(t, l.Addr())
	other.session, other.heartbeat, other.watch, other.unknownTimeout = l.session, l.heartbeat, l.watch, l.unknownTimeout
	return other
}

func join(t *testing.T, l *Log, group, topic string) *Member {
	t.Helper()
	m := l.Join(group, topic)
	t.Cleanup(func() { _ = m.Leave() })
	return m
}

func testGroup(t *testing.T, l *Log, topic string) {
	assert.NoError(t, l.Create(testContext(t), Topic{Name: topic, Partitions: 5}))
	l.heartbeat = 20 * time.Millisecond
	a := join(t, l, topic, topic)
	until(t, "one owns all", ownsAll(a, 5), a)
	assert.NoError(t, <-commit(a, map[int]int64{0: 3, 4: 7}))

	other := second(t, l)
	b := join(t, other, topic, topic)
	until(t, "two share", divided(5, a, b), a, b)
	assert.Equal(t, a.Owned(), upTo(3), "what the first keeps")
	alone := join(t, other, topic+"-other", topic)
	until(t, "another group has its own members", ownsAll(alone, 5), alone)
	c := join(t, l, topic, topic) // one process may join a group twice
	until(t, "three share", divided(5, a, b, c), a, b, c)

	hosts := assert.Must(l.Members(testContext(t), topic))(t)
	assert.True(t, len(hosts) == 3 && net.ParseIP(hosts[0]) != nil, "members at %v, expected three addresses", hosts)
	owners := assert.Must(l.Owners(testContext(t), topic))(t)
	var owned [][]int
	for _, o := range owners {
		owned = append(owned, o.Partitions)
	}
	slices.SortFunc(owned, slices.Compare)
	want := [][]int{a.Owned(), b.Owned(), c.Owned()}
	slices.SortFunc(want, slices.Compare)
	assert.True(t, slices.EqualFunc(owned, want, slices.Equal), "the members own %v, the coordinator says %+v", want, owners)
	assert.Equal(t, len(assert.Must(l.Members(testContext(t), topic+"-none"))(t)), 0, "members of a group that does not exist")

	assert.NoError(t, b.Leave())
	assert.NoError(t, b.Leave())
	assert.True(t, len(b.Owned()) == 0 && b.Err() == nil, "after Leave: owns %v, %v", b.Owned(), b.Err())
	until(t, "two share what the third left", divided(5, a, c), a, c)
	assert.NoError(t, c.Leave())
	until(t, "one owns all again", ownsAll(a, 5), a)
	assert.True(t, ownsAll(alone, 5)(), "the other group's member owns %v", alone.Owned())

	committed := commit(a, map[int]int64{1: 9})
	assert.NoError(t, a.Leave()) // waits for it
	assert.NoError(t, <-committed)
	a.Commit(map[int]int64{1: 10}, func(error) { t.Error("a member that has left commits") })
	for partition, want := range []int64{3, 9, -1, -1, 7} {
		assert.Equal(t, committedOffset(t, l, topic, topic, partition), want, "the offset that is committed for partition %d", partition)
	}
}

// commit commits offsets, and returns the channel that gets the result.
func commit(m *Member, offsets map[int]int64) <-chan error {
	result := make(chan error, 1)
	m.Commit(offsets, func(err error) { result <- err })
	return result
}

// committedOffset returns a group's committed offset of a partition, or -1.
func committedOffset(t *testing.T, l *Log, group, topic string, partition int) int64 {
	t.Helper()
	client := &kafka.Client{Addr: l.seeds, Transport: l.transport}
	response, err := client.OffsetFetch(testContext(t), &kafka.OffsetFetchRequest{GroupID: group,
		Topics: map[string][]int{topic: {partition}}})
	assert.NoError(t, err)
	assert.NoError(t, response.Error)
	return response.Topics[topic][0].CommittedOffset
}

// A rejected commit is only an error for its caller: the membership continues.
func TestCommitThatIsRefused(t *testing.T) {
	cluster, l := openGroup(t, kfake.NumBrokers(1))
	a := join(t, l, "g", "t")
	until(t, "it owns all", ownsAll(a, 6), a)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "g", Err: kerr.GroupAuthorizationFailed})
	assert.Fails(t, <-commit(a, map[int]int64{0: 1}), kafka.GroupAuthorizationFailed)
	assert.True(t, ownsAll(a, 6)() && a.Err() == nil, "it owns %v, %v", a.Owned(), a.Err())
}

// openGroup connects to brokers with short session timeouts, and creates topic t with six partitions.
func openGroup(t *testing.T, options ...kfake.Opt) (*kfake.Cluster, *Log) {
	t.Helper()
	cluster, addresses := startCluster(t, append(options, kfake.GroupMinSessionTimeout(time.Millisecond))...)
	l := connect(t, addresses)
	l.heartbeat, l.watch, l.unknownTimeout = 10*time.Millisecond, 10*time.Millisecond, 0
	assert.NoError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 6}))
	return cluster, l
}

func TestDeadMemberLosesItsPartitions(t *testing.T) {
	_, l := openGroup(t, kfake.NumBrokers(1))
	l.session = 500 * time.Millisecond
	testDeadMember(t, l, "t")
}

// A process that dies without leaving loses its partitions when its session expires.
func testDeadMember(t *testing.T, l *Log, topic string) {
	assert.NoError(t, l.Create(testContext(t), Topic{Name: topic, Partitions: 6}))
	a := join(t, l, topic, topic)
	until(t, "one owns all", ownsAll(a, 6), a)
	dying := second(t, l)
	b := join(t, dying, topic, topic)
	until(t, "two share", divided(6, a, b), a, b)
	had := a.Owned()

	died := time.Now()
	assert.NoError(t, dying.Close())
	until(t, "the dead member knows", func() bool { return b.Err() != nil }, b)
	assert.True(t, errors.Is(b.Err(), ErrClosed) && len(b.Owned()) == 0, "the dead member owns %v, %v", b.Owned(), b.Err())
	assert.Fails(t, b.Leave(), nil)
	assert.Equal(t, a.Owned(), had, "partitions before the session expired")
	until(t, "one takes over", ownsAll(a, 6), a)
	took := time.Since(died)
	assert.True(t, took >= l.session/2 && took <= l.session+5*time.Second, "taking over took %v", took)
}

// A member whose session may have expired owns nothing until the coordinator responds again.
func TestSilentCoordinator(t *testing.T) {
	cluster, l := openGroup(t, kfake.NumBrokers(1))
	l.session, l.leave = 300*time.Millisecond, 100*time.Millisecond
	a := join(t, l, "g", "t")
	until(t, "one owns all", ownsAll(a, 6), a)
	silence := make(chan struct{})
	for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.LeaveGroup} {
		cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			select {
			case <-silence:
				return nil, nil, false
			default:
				cluster.KeepControl()
				return nil, nil, true
			}
		})
	}
	until(t, "nothing is owned", func() bool { return len(a.Owned()) == 0 }, a)
	err := a.Err()
	assert.True(t, err == nil, "silence ended the membership: %v", err)
	b := join(t, l, "g", "t")
	began := time.Now()
	err = a.Leave()
	assert.True(t, err != nil && time.Since(began) <= 5*time.Second, "leaving took %v, %v", time.Since(began), err)
	close(silence)
	until(t, "another owns all", ownsAll(b, 6), b)
}

func TestTransientErrorsOfGroups(t *testing.T) {
	for key, failures := range map[kmsg.Key][]*kerr.Error{
		kmsg.FindCoordinator: {kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress},
		kmsg.JoinGroup: {kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.UnknownMemberID,
			kerr.RebalanceInProgress},
		kmsg.SyncGroup:   {kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.NotCoordinator},
		kmsg.OffsetFetch: {kerr.CoordinatorLoadInProgress},
		kmsg.Heartbeat: {kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.UnknownMemberID,
			kerr.IllegalGeneration, kerr.RebalanceInProgress},
	} {
		for _, failure := range failures {
			t.Run(key.Name()+" "+failure.Message, func(t *testing.T) {
				t.Parallel()
				cluster, l := openGroup(t, kfake.NumBrokers(1))
				hit := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Group: "g", Err: failure, Count: 2})
				m := join(t, l, "g", "t")
				if key != kmsg.OffsetFetch { // kafka-go ignores its error
					assert.NoError(t, hit.Wait(testContext(t), 2))
				}
				until(t, "the member owns all", ownsAll(m, 6), m)
				assert.NoError(t, m.Leave())
			})
		}
	}
}

func TestPermanentErrorsOfGroups(t *testing.T) {
	for name, c := range map[string]struct {
		key     kmsg.Key
		failure *kerr.Error
	}{
		"finding the coordinator is not allowed": {kmsg.FindCoordinator, kerr.GroupAuthorizationFailed},
		"joining is not allowed":                 {kmsg.JoinGroup, kerr.GroupAuthorizationFailed},
		"the heartbeat is not allowed":           {kmsg.Heartbeat, kerr.GroupAuthorizationFailed},
		"the topic may not be described":         {kmsg.Metadata, kerr.TopicAuthorizationFailed},
		"others have another protocol":           {kmsg.JoinGroup, kerr.InconsistentGroupProtocol},
		"brokers want longer sessions":           {kmsg.JoinGroup, kerr.InvalidSessionTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, l := openGroup(t, kfake.NumBrokers(1))
			fault := kfake.Fault{Keys: []kmsg.Key{c.key}, Group: "g", Err: c.failure, Count: -1}
			if c.key == kmsg.Metadata {
				fault.Group, fault.Topic = "", "t"
			}
			cluster.Fault(fault)
			m := join(t, l, "g", "t")
			until(t, "the membership ends", func() bool { return m.Err() != nil }, m)
			assert.True(t, errors.Is(m.Err(), kafka.Error(c.failure.Code)) && len(m.Owned()) == 0, "%v, owned %v", m.Err(), m.Owned())
			assert.NoError(t, m.Leave())
		})
	}
}

func TestTopicsOfGroups(t *testing.T) {
	_, l := openGroup(t, kfake.NumBrokers(1))
	nothing := join(t, l, "g", "none")
	until(t, "the topic is unknown", func() bool { return errors.Is(nothing.Err(), ErrUnknownTopic) }, nothing)

	a, b := join(t, l, "g", "t"), join(t, second(t, l), "g", "t")
	until(t, "two share", divided(6, a, b), a, b)
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.TimeoutMillis = 10_000
	more := kmsg.NewCreatePartitionsRequestTopic()
	more.Topic, more.Count = "t", 9
	request.Topics = append(request.Topics, more)
	assert.NoError(t, kerr.ErrorForCode(assert.Must(request.RequestWith(testContext(t), foreign(t, l)))(t).Topics[0].ErrorCode))
	until(t, "two share the added partitions", divided(9, a, b), a, b)

	assert.NoError(t, l.Delete(testContext(t), "t"))
	until(t, "the topic is gone", func() bool { return errors.Is(a.Err(), ErrUnknownTopic) && errors.Is(b.Err(), ErrUnknownTopic) }, a, b)
}

func TestCoordinatorMoves(t *testing.T) {
	cluster, l := openGroup(t, kfake.NumBrokers(3))
	a, b := join(t, l, "g", "t"), join(t, second(t, l), "g", "t")
	until(t, "two share", divided(6, a, b), a, b)
	before := cluster.CoordinatorFor("g")
	for cluster.CoordinatorFor("g") == before {
		cluster.RehashCoordinators()
	}
	c := join(t, l, "g", "t")
	until(t, "three share", divided(6, a, b, c), a, b, c)
}

// A restarted broker has no members. During the outage the members keep their partitions, and afterwards they share them again.
func TestGroupOutlivesItsBroker(t *testing.T) {
	dir := t.TempDir()
	cluster, l := openGroup(t, kfake.NumBrokers(1), kfake.DataDir(dir))
	a := join(t, l, "g", "t")
	until(t, "one owns all", ownsAll(a, 6), a)
	cluster.Close()
	assert.True(t, ownsAll(a, 6)(), "while the broker is down it owns %v", a.Owned())
	startCluster(t, kfake.Ports(port(l.Addr()[0])), kfake.DataDir(dir), kfake.GroupMinSessionTimeout(time.Millisecond))
	b := join(t, second(t, l), "g", "t")
	until(t, "two share", divided(6, a, b), a, b)
}

// A member can leave during a rebalance, before it has joined, and while no broker runs.
func TestLeaveAtAnyTime(t *testing.T) {
	cluster, l := openGroup(t, kfake.NumBrokers(1))
	l.session, l.leave = 500*time.Millisecond, 200*time.Millisecond
	stays := join(t, l, "g", "t")
	for range 20 {
		m := l.Join("g", "t")
		ctx, cancel := context.WithTimeout(testContext(t), 5*time.Millisecond)
		select {
		case <-m.Changed():
		case <-ctx.Done():
		}
		cancel()
		_ = m.Leave() // during a rebalance the coordinator may not respond in time
		assert.True(t, m.Err() == nil && len(m.Owned()) == 0, "after leaving: %v, %v", m.Owned(), m.Err())
	}
	until(t, "the remaining member owns all", ownsAll(stays, 6), stays)
	cluster.Close()
	began := time.Now()
	_ = stays.Leave()
	took := time.Since(began)
	assert.True(t, took <= 5*time.Second, "leaving a broker that is gone took %v", took)
}

// checkShares checks the properties of every assignment: complete, disjoint, sorted, even.
func checkShares(t *testing.T, partitions []int, claims map[string]claim, shares map[string][]int) {
	t.Helper()
	var all []int
	smallest, largest := len(partitions), 0
	for m, share := range shares {
		_, member := claims[m]
		assert.True(t, member, "%s is not a member", m)
		assert.True(t, slices.IsSorted(share), "%s has %v", m, share)
		smallest, largest = min(smallest, len(share)), max(largest, len(share))
		all = append(all, share...)
	}
	slices.Sort(all)
	assert.True(t, len(shares) == len(claims) && slices.Equal(all, partitions) && largest-smallest <= 1,
		"%d partitions among %d: %v", len(partitions), len(claims), shares)
}

// kept counts the partitions that stay with their member.
func kept(held, shares map[string][]int) (n int) {
	for m, share := range shares {
		for _, p := range held[m] {
			if slices.Contains(share, p) {
				n++
			}
		}
	}
	return n
}

// holdings returns the partitions of each member whose claim to them has the latest generation, by the order of the members' ids.
func holdings(partitions int, claims map[string]claim) map[string][]int {
	held := map[string][]int{}
	for p := range partitions {
		holder := ""
		for _, m := range slices.Sorted(maps.Keys(claims)) {
			if slices.Contains(claims[m].Partitions, p) && (holder == "" || claims[m].Generation > claims[holder].Generation) {
				holder = m
			}
		}
		held[holder] = append(held[holder], p)
	}
	return held
}

// maxKept returns the maximum number of partitions that can stay in an even assignment: for each member up to the smaller
// share, and one more for as many members as get the larger share.
func maxKept(partitions int, members []string, held map[string][]int) (n int) {
	larger := partitions % len(members)
	for _, m := range members {
		n += min(len(held[m]), partitions/len(members))
		if len(held[m]) > partitions/len(members) && larger > 0 {
			n++
			larger--
		}
	}
	return n
}

// Members join, leave, and miss generations, and partitions are added: every assignment is even and moves as few
// partitions as an even one can.
func TestAssignOverGenerations(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		partitions := upTo(random.IntN(60))
		claims := map[string]claim{}
		for generation := range int32(20) {
			for range random.IntN(4) {
				m := fmt.Sprint("m", random.IntN(25))
				if _, member := claims[m]; member {
					delete(claims, m)
				} else {
					claims[m] = claim{}
				}
			}
			if random.IntN(5) == 0 {
				partitions = upTo(len(partitions) + random.IntN(5))
			}
			if len(claims) == 0 {
				continue
			}
			members := slices.Sorted(maps.Keys(claims))
			held := holdings(len(partitions), claims)
			shares := assign(len(partitions), 1, claims)
			checkShares(t, partitions, claims, shares)
			got, want := kept(held, shares), maxKept(len(partitions), members, held)
			assert.Need(t, got == want, "seed %d: %v to %v: %d partitions stay of %d that could", seed, held, shares, got, want)
			for m, share := range shares {
				if random.IntN(10) > 0 { // otherwise the member misses this generation
					claims[m] = claim{generation, share}
				}
			}
			assert.Need(t, !t.Failed(), "seed %d", seed)
		}
	}
}

// Members have whole groups, in one range if nobody had any before, and keep them.
func TestAssignGroups(t *testing.T) {
	for _, c := range []struct{ partitions, members, size int }{{1000, 4, 32}, {1000, 7, 32}, {128, 1, 32}, {97, 3, 8}, {1000, 4, 62}} {
		claims := map[string]claim{}
		for i := range c.members {
			claims[fmt.Sprint("m", i)] = claim{}
		}
		shares := assign(c.partitions, c.size, claims)
		var all []int
		for m, share := range shares {
			all = append(all, share...)
			claims[m] = claim{1, share}
			assert.True(t, share[0]%c.size == 0 && share[len(share)-1]-share[0] == len(share)-1, "%+v: %s has %v", c, m, share)
			most := c.partitions/c.members + c.size
			assert.True(t, len(share) <= most, "%+v: %s has %d partitions, expected at most %d", c, m, len(share), most)
		}
		slices.Sort(all)
		assert.True(t, slices.Equal(all, upTo(c.partitions)), "%+v: %v", c, shares)
		again := assign(c.partitions, c.size, claims)
		assert.True(t, maps.EqualFunc(again, shares, slices.Equal), "%+v: %v, then %v", c, shares, again)
		delete(claims, "m0")
		for m, share := range assign(c.partitions, c.size, claims) {
			for _, p := range claims[m].Partitions {
				assert.Need(t, slices.Contains(share, p), "%+v: %s loses partition %d when another leaves", c, m, p)
			}
		}
	}
}

// No claim can make an assignment uneven, or take partitions from a valid claim of a later generation.
func FuzzClaim(f *testing.F) {
	valid := claim{3, []int{0, 5}}.encode("t")
	for _, seed := range [][]byte{valid, nil, valid[:len(valid)-3], claim{2, []int{-1, 1, 1, 9999}}.encode("t")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const latest = 1<<31 - 1
		claims := map[string]claim{"valid": {latest, []int{1, 2, 3}}, "fuzz": decodeClaim(data), "other": {}}
		shares := assign(9, 1, claims)
		checkShares(t, upTo(9), claims, shares)
		assert.True(t, claims["fuzz"].Generation >= latest || slices.Equal(shares["valid"], []int{1, 2, 3}),
			"the valid claim became %v", shares["valid"])
	})
}
