package client

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// follow follows until the end of the test.
func follow(t testing.TB, o Options) *Follower {
	t.Helper()
	f := assert.Must(Follow(t.Context(), o))(t)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

// version returns the number of the version that a follower has; 0: it has none.
func version(f *Follower) int {
	if m := f.Model(); m != nil {
		return m.Manifest.Version
	}
	return 0
}

// await waits until a follower has a version.
func await(t testing.TB, f *Follower, want int) {
	t.Helper()
	for {
		changed := f.Changed()
		if version(f) == want {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// awaitStatus waits until the status of a follower is as it should be.
func awaitStatus(t testing.TB, f *Follower, is func(Status) bool) Status {
	t.Helper()
	for {
		if s := f.Status(); is(s) {
			return s
		}
		assert.NoError(t, protocol.Pause(t.Context(), time.Millisecond))
	}
}

// A follower has each version soon after it counts. Withheld versions are not offered, a pin comes first, and a version
// that is removed goes.
func TestFollowVersions(t *testing.T) {
	p, cluster := brokers(t)
	p.publish()
	f := follow(t, p.options(cluster))
	<-f.Ready()
	await(t, f, 1)
	s := f.Status()
	assert.True(t, s.Run == p.places[1].Run && s.Kind == schemas.RunFull && s.Parent == "" && s.Err == nil && s.Age > 0 &&
		s.Silence <= time.Minute, "the status is %+v", s)
	p.publish()
	await(t, f, 2)
	s = f.Status()
	assert.True(t, s.Kind == schemas.RunUpdate && s.Parent == p.places[1].Run, "the status is %+v, not an update of %s", s, p.places[1].Run)
	p.withhold()
	p.publish()
	await(t, f, 4)
	p.pin(3) // also a version that is withheld
	await(t, f, 3)
	p.publish()
	p.pin(1)
	await(t, f, 1)
	p.pin(0)
	await(t, f, 5)
	p.remove(5)
	await(t, f, 4)
	for version := 1; version <= 4; version++ {
		p.remove(version)
	}
	await(t, f, 0)
	s = f.Status()
	assert.True(t, s.Version == 0 && f.Stale() != nil, "without a version the status is %+v, stale: %v", s, f.Stale())
	p.publish()
	await(t, f, 6)
	err := f.Stale()
	assert.True(t, err == nil, "stale: %v", err)
}

// The model that a follower has is that of the version, whether it shares feature maps with the one before or not.
func TestFollowedModelIsTheVersion(t *testing.T) {
	p, cluster := brokers(t)
	f := follow(t, p.options(cluster))
	for i := range 3 {
		if i == 2 {
			p.features = 6 // a full run with other stages
		}
		number := p.publish()
		await(t, f, number)
		whole := assert.Must(p.Model(t.Context(), fmt.Sprint(number)))(t)
		row, got, want := []float32{1, 2, 3}, make([]float32, 2), make([]float32, 2)
		assert.True(t, f.Model().Predict(row, got) == whole.Predict(row, want) && got[0] == want[0] && f.Model().Digest() == whole.Digest(),
			"version %d predicts %v, read by itself %v", number, got, want)
	}
}

// A follower of one version keeps it, whatever comes, until it is removed. It waits for a version that is not there yet.
func TestFollowOneVersion(t *testing.T) {
	p, cluster := brokers(t)
	o := p.options(cluster)
	o.Version = "2"
	f := follow(t, o)
	p.publish()
	s := awaitStatus(t, f, func(s Status) bool { return s.Err != nil })
	assert.True(t, errors.As(s.Err, new(*protocol.NoVersionError)) && s.Version == 0, "the status is %+v", s)
	p.publish()
	await(t, f, 2)
	byRun := o
	byRun.Version = p.places[1].Run
	await(t, follow(t, byRun), 1)
	p.publish()
	p.pin(3)
	p.remove(2)
	await(t, f, 0)
}

// A version whose messages are damaged is never the model: the one before it stays, or is taken by who starts now, and
// the status says why. A later one is taken.
func TestDamagedVersionIsNotOffered(t *testing.T) {
	for name, damage := range map[string]func(*wire.Message){
		"cut off":     func(m *wire.Message) { m.Value = append([]byte(nil), m.Value[:len(m.Value)/2]...) },
		"one bit":     func(m *wire.Message) { m.Value[len(m.Value)/2] ^= 1 },
		"none at all": func(m *wire.Message) { m.Value = nil },
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []wire.Kind{statistics.KindPrepare, schemas.KindWeights, schemas.KindManifest} {
				p, cluster := brokers(t)
				p.publish()
				f := follow(t, p.options(cluster))
				await(t, f, 1)
				p.damage = func(messages []wire.Message) []wire.Message {
					for i := range messages {
						if messages[i].Kind() == kind {
							damage(&messages[i])
						}
					}
					return messages
				}
				p.publish()
				s := awaitStatus(t, f, func(s Status) bool { return s.Err != nil })
				assert.Equal(t, s.Version, 1, "%s: the follower's version", kind)
				late := follow(t, p.options(cluster)) // as a server that starts now
				await(t, late, 1)
				s = awaitStatus(t, late, func(s Status) bool { return s.Err != nil })
				assert.Equal(t, s.Version, 1, "%s: the version of a follower that starts", kind)
				p.damage = nil
				p.publish()
				await(t, f, 3)
				s = awaitStatus(t, f, func(s Status) bool { return s.Err == nil })
				assert.Equal(t, s.Version, 3, "%s: the follower's version", kind)
			}
		})
	}
}

// While brokers fail, the follower keeps its model and says why it knows nothing. Then it goes on.
func TestFollowerOutlivesTrouble(t *testing.T) {
	p, cluster := brokers(t)
	p.publish()
	o := p.options(cluster)
	o.MaxSilence = 40 * time.Millisecond // asks every 10 ms
	f := follow(t, o)
	await(t, f, 1)
	outage := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	s := awaitStatus(t, f, func(s Status) bool { return s.Silence > o.MaxSilence && s.Err != nil })
	err := f.Stale()
	assert.True(t, err != nil && strings.Contains(err.Error(), "version 1") && strings.Contains(err.Error(), "limit 40ms") && s.Version == 1,
		"stale: %v; the status is %+v", err, s)
	p.publish()
	assert.Equal(t, version(f), 1, "the follower's version")
	outage.Remove()
	await(t, f, 2)
	awaitStatus(t, f, func(s Status) bool { return s.Silence < o.MaxSilence && s.Err == nil })
}

// A follower that was away finds a version gone whose removal and tombstones it can't see any more: it is not listed.
func TestFollowerListsAnew(t *testing.T) {
	p, cluster := brokers(t)
	p.publish()
	o := p.options(cluster)
	o.MaxSilence = 40 * time.Millisecond
	f := follow(t, o)
	await(t, f, 1)
	outage := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: p.Topics.Plans, Err: kerr.NotLeaderForPartition, Count: -1})
	awaitStatus(t, f, func(s Status) bool { return s.Silence > o.MaxSilence })
	_, end, err := p.Client.Log.Bounds(t.Context(), p.Topics.Plans, 0)
	assert.NoError(t, err)
	assert.NoError(t, p.Client.Log.DeleteBefore(t.Context(), p.Topics.Plans, 0, end))
	outage.Remove()
	await(t, f, 0)
	p.number = 7
	p.publish()
	await(t, f, 8)
}

// A pipeline that has no topics yet, and one whose topics are made anew, are followed all the same.
func TestTopicsThatComeAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test")
	}
	cluster := assert.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	defer cluster.Close()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalogOptions(cluster)))(t)
	defer log.Close()
	f := assert.Must(FollowOn(t.Context(), log, Options{Name: "p", MaxSilence: 40 * time.Millisecond}))(t)
	defer f.Close()
	s := awaitStatus(t, f, func(s Status) bool { return errors.As(s.Err, new(*protocol.NoPipelineError)) })
	assert.Equal(t, s.Version, 0, "the version")
	assert.True(t, strings.HasPrefix(fmt.Sprint(f.Stale()), "there is no version: read p.plans: unknown topic"), "stale: %v", f.Stale())
	for range 2 {
		p := newPublisher(t, kafkalogOptions(cluster))
		p.publish()
		p.publish()
		await(t, f, 2)
		assert.NoError(t, p.delete())
		awaitStatus(t, f, func(s Status) bool { return s.Err != nil })
	}
}

// Who follows a pipeline without topics learns at once which topic is missing. One without a version is followed.
func TestPipelineThatIsNotThere(t *testing.T) {
	p, cluster := brokers(t)
	dir := filepath.Join(t.TempDir(), "data")
	for _, o := range []Options{
		{Name: "q", Brokers: cluster.ListenAddrs()},
		{Name: "P", Brokers: cluster.ListenAddrs(), Version: "7"},
		{Name: "q", DataDir: dir},
	} {
		key := "brokers"
		if o.DataDir != "" {
			key = "data_dir"
		}
		want := "follow versions: read " + o.Name + ".plans: unknown topic or partition; run stagewise train first, or check name and " + key
		_, err := Follow(t.Context(), o)
		assert.True(t, errors.As(err, new(*protocol.NoPipelineError)) && err.Error() == want, "got %v, expected %s", err, want)
	}
	assert.MustFail(os.Stat(dir))(t, os.ErrNotExist)
	f := follow(t, p.options(cluster))
	p.publish()
	await(t, f, 1)
}

// Ages and silence are measured by a clock.
func TestStale(t *testing.T) {
	p, _ := brokers(t)
	p.publish()
	for _, c := range []struct {
		elapsed, silence time.Duration
		want             string
	}{
		{0, time.Hour, ""},
		{90 * time.Minute, time.Hour, "version 1 not confirmed by brokers for 1h30m0"},
		{90 * time.Minute, 3 * time.Hour, ""},
		{150 * time.Minute, 3 * time.Hour, "version 1 is 2h30m0"},
	} {
		f := newFollower(Options{Name: "p", MaxAge: 2 * time.Hour, MaxSilence: c.silence})
		var ahead atomic.Int64
		f.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		err := f.Stale()
		assert.True(t, err != nil && err.Error() == "there is no version yet", "stale: %v", err)
		f.follow(t.Context(), p.log, func() error { return nil })
		await(t, f, 1)
		awaitStatus(t, f, func(s Status) bool { return s.Silence < time.Minute })
		ahead.Store(int64(c.elapsed))
		stale := fmt.Sprint(f.Stale())
		assert.True(t, strings.HasPrefix(stale, cmp.Or(c.want, "<nil>")), "after %v: %s, expected %q", c.elapsed, stale, c.want)
		assert.NoError(t, f.Close())
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	for want, o := range map[string]Options{
		"Name: not set: expected the name of a pipeline":                    {Brokers: []string{"a:1"}},
		"Brokers: not set: expected the addresses":                          {Name: "p"},
		"DataDir: d: expected no value":                                     {Name: "p", Brokers: []string{"a:1"}, DataDir: "d"},
		"version: x: expected a version number, the id of a run, or latest": {Name: "p", Brokers: []string{"a:1"}, Version: "x"},
		"MaxAge: -1s: expected a time of at least 0":                        {Name: "p", DataDir: "d", MaxAge: -time.Second},
		"MaxSilence: -1s: expected a time of at least 0":                    {Name: "p", DataDir: "d", MaxSilence: -time.Second},
	} {
		_, err := Follow(t.Context(), o)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "follow versions: "+want), "got %v, expected %q", err, want)
	}
}

// A follower keeps the model that it offers, and no other.
func TestFollowerKeepsOneModel(t *testing.T) {
	p, cluster := brokers(t)
	f := follow(t, p.options(cluster))
	var models []weak.Pointer[model.Model]
	for range 10 {
		await(t, f, p.publish())
		models = append(models, weak.Make(f.Model()))
	}
	runtime.GC()
	runtime.GC() // what pools had
	alive := 0
	for _, m := range models {
		if m.Value() != nil {
			alive++
		}
	}
	assert.True(t, alive <= 1, "%d models are alive, expected that of the newest version", alive)
	runtime.KeepAlive(f)
}
