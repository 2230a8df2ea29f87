// Package client follows the versions of a pipeline and holds the newest model:
//
//	plans, versions ──Follow──▶ Follower ──Model──▶ *model.Model ──Predict──▶ label and probabilities
//
// A service follows a pipeline and predicts with the current [Follower.Model]. A new version replaces the model between calls; no
// call waits for it: see [Follow].
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// Follower holds the model of the newest version of a pipeline, or of a chosen version. [Follow] creates it. Its
// methods are safe for concurrent use.
type Follower struct {
	options  Options
	client   *protocol.Client
	log      *kafkalog.Log
	close    func() error // stops following, and closes the log if it is the follower's own
	now      func() time.Time
	retry    time.Duration // the first wait after an error
	model    atomic.Pointer[model.Model]
	ready    chan struct{}
	readable sync.Once // closes ready

	mutex     sync.Mutex
	changed   chan struct{}
	written   time.Time // when the version was written
	confirmed time.Time // when the brokers last confirmed the version
	err       error     // the last error; nil: none since the last success
	waiting   map[string]error
}

// Follow connects to the brokers and follows the versions of a pipeline until ctx ends or [Follower.Close] is called.
// It returns when a broker has answered; the pipeline may have no version yet. [Follower.Ready] reports the first model.
//
// A version becomes the model when all its blocks are read, their digests match, and its random draws are made. Follow reads only
// that version, however many are on the topic, and holds at most the current version and the next one in memory. While no broker
// answers, the current model stays. When a version is removed, [Follower.Model] is its successor, or nil.
//
// Follow returns an error if the options are invalid, no broker answers, access is denied, or the pipeline has no topics.
// Topics that are deleted and created again later are followed.
func Follow(ctx context.Context, o Options) (*Follower, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("follow versions: %w", err)
	}
	f := newFollower(o)
	log, err := kafkalog.Open(ctx, kafkalog.Options{Brokers: o.Brokers, Security: o.Security, DataDir: o.DataDir, Waiting: f.wait})
	if err != nil {
		return nil, fmt.Errorf("follow versions: %w", err)
	}
	if err := protocol.RequirePipeline(ctx, log, o.Name); err != nil {
		return nil, fmt.Errorf("follow versions: %w", errors.Join(err, log.Discard()))
	}
	return f.follow(ctx, log, log.Close), nil
}

// FollowOn is [Follow] on an open log, which Close leaves open, for the commands of this module. They may start before the pipeline
// has topics: FollowOn waits for them. It ignores the brokers of the options.
func FollowOn(ctx context.Context, log *kafkalog.Log, o Options) (*Follower, error) {
	if err := o.checkValues(); err != nil {
		return nil, fmt.Errorf("follow versions: %w", err)
	}
	return newFollower(o).follow(ctx, log, func() error { return nil }), nil
}

// FollowWith is FollowOn on a log that it opens, and that Close closes. Status has the operations that wait for brokers.
func FollowWith(ctx context.Context, open kafkalog.Options, o Options) (*Follower, error) {
	if err := o.checkValues(); err != nil {
		return nil, fmt.Errorf("follow versions: %w", err)
	}
	f := newFollower(o)
	open.Waiting = f.wait
	log, err := kafkalog.Open(ctx, open)
	if err != nil {
		return nil, err
	}
	return f.follow(ctx, log, log.Close), nil
}

func newFollower(o Options) *Follower {
	return &Follower{options: o, now: time.Now, retry: firstRetry, ready: make(chan struct{}), changed: make(chan struct{}),
		waiting: map[string]error{}}
}

// follow starts the goroutine that follows the versions.
func (f *Follower) follow(ctx context.Context, log *kafkalog.Log, closeLog func() error) *Follower {
	f.client, f.log = protocol.NewClient(log, f.options.Name, nil), log
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { f.run(ctx); cancel() })
	f.close = sync.OnceValue(func() error {
		cancel()
		err := closeLog() // ends operations that wait for brokers
		following.Wait()
		return err
	})
	context.AfterFunc(ctx, func() { _ = f.close() }) // a Close that comes later returns the error
	return f
}

// Close stops following and waits until that is done. The last model remains usable. Later calls return the same error.
func (f *Follower) Close() error { return f.close() }

// Model returns the model of the current version. It is nil before [Follower.Ready] and after the last version was removed. A model
// is immutable and remains usable after the next one.
func (f *Follower) Model() *model.Model { return f.model.Load() }

// Ready returns a channel that is closed when the first model is available.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Changed returns a channel that is closed at the next change of [Follower.Model]. Call it before Model to see every change.
func (f *Follower) Changed() <-chan struct{} {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.changed
}

// Status describes the current version, and when the brokers last confirmed it.
type Status struct {
	Version int           // 0: there is none, and of the other fields only Silence and Err are set
	Run     string        // id of the run that made it
	Kind    string        // "full", or "update" if it continues from its parent
	Parent  string        // run id of the previous version in its chain; "": there is none
	Written time.Time     // when it was written, by the clock of its writer
	Age     time.Duration // since it was written
	Silence time.Duration // since the brokers last confirmed the version; the maximum duration if they never did
	Err     error         // the last error; nil after a success
}

// Status returns the current status.
func (f *Follower) Status() Status {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.now()
	s := Status{Silence: now.Sub(f.confirmed), Err: f.err}
	for what, err := range f.waiting {
		s.Err = fmt.Errorf("%s: %w", what, err)
	}
	m := f.model.Load()
	if m == nil {
		return s
	}
	s.Version, s.Run, s.Kind = m.Manifest.Version, m.Manifest.Run, m.Manifest.Plan.Kind()
	s.Written, s.Age = f.written, now.Sub(f.written)
	if chain := m.Manifest.Plan.Chain; chain != nil && chain.Parent != nil {
		s.Parent = chain.Parent.Run
	}
	return s
}

// Stale returns an error if there is no model, the brokers have not answered for [Options.MaxSilence], or the version is older than
// [Options.MaxAge]. The model stays usable: the caller decides.
func (f *Follower) Stale() error {
	s, stale := f.Status(), error(nil)
	switch {
	case s.Version == 0 && s.Err == nil:
		return errors.New("there is no version yet")
	case s.Version == 0:
		stale = errors.New("there is no version")
	case s.Silence > f.options.silence():
		stale = fmt.Errorf("version %d not confirmed by brokers for %v (limit %v)", s.Version, s.Silence.Round(time.Millisecond),
			f.options.silence())
	case f.options.MaxAge > 0 && s.Age > f.options.MaxAge:
		return fmt.Errorf("version %d is %v old (limit %v)", s.Version, s.Age.Round(time.Millisecond), f.options.MaxAge)
	default:
		return nil
	}
	if s.Err != nil {
		stale = fmt.Errorf("%w: %w", stale, s.Err)
	}
	return stale
}

// firstRetry and lastRetry bound the exponential backoff after an error. Each attempt to read a damaged version reads the whole topic,
// because compaction may have kept copies of its messages at any offset.
const firstRetry, lastRetry = 250 * time.Millisecond, time.Minute

// manyChecks is the number of missed checks after which the follower reads the whole plans topic again.
const manyChecks = 10

// untilTopics is the longest wait for the topics of a pipeline that has none yet.
const untilTopics = 5 * time.Second

// run follows until ctx ends.
func (f *Follower) run(ctx context.Context) {
	for wait := f.retry; ; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := f.followPlans(ctx)
		f.set(f.model.Load(), f.written, time.Time{}, err)
		if time.Since(began) > lastRetry {
			wait = f.retry
		}
		if errors.As(err, new(*protocol.NoPipelineError)) { // retry soon, so that the first version is found soon
			wait = min(wait, untilTopics)
		}
		if protocol.Pause(ctx, wait) != nil {
			return
		}
	}
}

// followPlans follows the plans topic until an error. At intervals it requests the topic's end, which confirms that the brokers answer.
// After a long interruption it reads the whole topic again, because tombstones may have expired, and drops a version that is not listed.
func (f *Follower) followPlans(ctx context.Context) error {
	asked := f.now() // time of the request to the brokers in this round; zero if there was none
	if err := protocol.RequirePipeline(ctx, f.log, f.options.Name); err != nil {
		return err
	}
	plans, err := f.client.FollowPlans(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer plans.Close()
	failed, retry := map[string]error{}, f.retry // by run, why a version can't be read; until the next request to the brokers
	last := asked
	for due := time.Now(); ; {
		failing := f.choose(ctx, asked, plans.Ledger, failed)
		if !failing {
			retry = f.retry
		}
		if !asked.IsZero() {
			wait := f.options.checkEvery()
			if failing {
				wait, retry = retry, min(2*retry, lastRetry)
			}
			due = time.Now().Add(wait)
		}
		asked = time.Time{}
		_, late, err := plans.Deliver(ctx, time.Until(due))
		if err == nil && late {
			read := f.client.ReadLedger
			if asked = f.now(); asked.Sub(last) > manyChecks*f.options.checkEvery() {
				read = f.client.RereadLedger // tombstones may have come and gone
			}
			last = asked
			err = plans.Renew(ctx, read)
			clear(failed)
		}
		if err != nil {
			return err
		}
	}
}

// choose sets the model to the first complete version that the options allow. failing reports whether that version
// can't be read. For asked see set.
func (f *Follower) choose(ctx context.Context, asked time.Time, l *protocol.Ledger, failed map[string]error) (failing bool) {
	before := f.model.Load()
	var incomplete error // why the first version was skipped
	for place := range l.Wanted(f.options.version()) {
		m, written, err := before, f.written, failed[place.Run]
		if err == nil && (before == nil || before.Manifest.Run != place.Run) {
			m, written, err = f.client.ModelAt(ctx, place)
			failed[place.Run] = err
		}
		switch {
		case err == nil:
			f.set(m, written, asked, incomplete)
			return false
		case protocol.IsIncomplete(err) && f.options.version() == protocol.Latest:
			incomplete = cmp.Or(incomplete, err)
		default:
			f.set(before, f.written, time.Time{}, err)
			return true
		}
	}
	_, missing := l.Find(f.options.version())
	f.set(nil, time.Time{}, asked, cmp.Or(incomplete, missing))
	return false
}

// set sets the model to m, which was written at the given time. It records the last error, nil after a success, and asked, the time of the
// request by which the brokers confirmed the version. A zero time means that there was no request.
func (f *Follower) set(m *model.Model, written, asked time.Time, err error) {
	before := f.model.Load()
	if m != nil && m != before {
		m.Predict(make([]float32, m.Width()), nil) // makes the random draws before the first prediction needs them
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.err, f.confirmed = err, cmp.Or(asked, f.confirmed)
	if m == before {
		return
	}
	f.model.Store(m)
	f.written = written
	close(f.changed)
	f.changed = make(chan struct{})
	if m != nil {
		f.readable.Do(func() { close(f.ready) })
	}
}

// wait records that an operation waits for brokers, or has ended.
func (f *Follower) wait(w kafkalog.Wait) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if delete(f.waiting, w.What); !w.Over {
		f.waiting[w.What] = w.Err
	}
}

// Security configures TLS and SASL. The zero value is plain text without authentication. docs/security.md lists the permissions
// of a follower.
type Security = kafkalog.Security

// Secret is a password. It is never printed.
type Secret = kafkalog.Secret

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret { return kafkalog.NewSecret(text) }

// Options configure a [Follower].
type Options struct {
	// Name is the name of the pipeline: the prefix of its topics.
	Name string
	// Brokers are host:port addresses of a Kafka cluster, or of a listening embedded broker. At least one must answer.
	Brokers []string
	// Security applies to connections to Brokers.
	Security Security
	// DataDir is the directory of an embedded broker, which Follow opens if Brokers is empty. Only one process can open it; other
	// processes use the address that its configuration has as listen.
	DataDir string
	// Version is the number or the run id of the only version to follow. "" and "latest" mean the pinned version, or else the newest
	// offered one.
	Version string
	// MaxSilence is the time without an answer from the brokers after which [Follower.Stale] returns an error; 0 means
	// one minute. The follower sends requests four times as often, and at least every ten seconds.
	MaxSilence time.Duration
	// MaxAge is the age at which a version is stale; 0 means never.
	MaxAge time.Duration
}

// Check returns the first error in the options.
func (o *Options) Check() error {
	switch {
	case len(o.Brokers) == 0 && o.DataDir == "":
		return option.Problem{Key: "Brokers", Value: "not set",
			Want: "the addresses of brokers, or the directory of an embedded broker in DataDir"}
	case len(o.Brokers) > 0 && o.DataDir != "":
		return option.Problem{Key: "DataDir", Value: o.DataDir, Want: "no value: Brokers has " + strings.Join(o.Brokers, ", ")}
	}
	return o.checkValues()
}

// versionName matches version numbers and run ids.
var versionName = regexp.MustCompile(`^([0-9]+|[0-9a-f]{12})$`)

func (o *Options) checkValues() error {
	switch {
	case o.Name == "":
		return option.Problem{Key: "Name", Value: "not set", Want: "the name of a pipeline"}
	case o.version() != protocol.Latest && !versionName.MatchString(o.Version): // no version can match
		return option.Problem{Key: "version", Value: o.Version, Want: "a version number, the id of a run, or " + protocol.Latest}
	case o.MaxSilence < 0:
		return option.Problem{Key: "MaxSilence", Value: o.MaxSilence.String(), Want: "a time of at least 0"}
	case o.MaxAge < 0:
		return option.Problem{Key: "MaxAge", Value: o.MaxAge.String(), Want: "a time of at least 0"}
	}
	return nil
}

func (o *Options) version() string           { return cmp.Or(o.Version, protocol.Latest) }
func (o *Options) silence() time.Duration    { return cmp.Or(o.MaxSilence, time.Minute) }
func (o *Options) checkEvery() time.Duration { return min(o.silence()/4, 10*time.Second) }
