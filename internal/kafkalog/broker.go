package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/semaphore"
)

// broker is the embedded broker. kfake speaks the Kafka protocol with clients of the listener, without authentication, and
// keeps its log in the data directory. The log survives SIGKILL: acknowledged messages are in the page cache, and a torn
// last batch is truncated on load. kfake does not lock the directory, so broker does.
type broker struct {
	lock     *flock.Flock
	made     []string // created directories: the data directory, then its parents
	files    files
	sync     bool // each batch is synced to disk before it is acknowledged
	failed   context.CancelCauseFunc
	listener *listener
	// writes is acquired by this process's writes, and exclusively by restart: otherwise a write might be applied but not
	// answered.
	writes *semaphore.Weighted

	mu      sync.Mutex // held while cluster starts and stops
	cluster *kfake.Cluster
	stopped bool
	discard bool // stop removes the directories that startBroker created if no message was written

	faulty sync.Mutex
	fault  *fs.PathError // the last file error of kfake; nil: none
}

// clusterID is the cluster id of embedded brokers.
const clusterID = "stagewise-embedded"

// compactionInterval disables kfake's own cleaning, which is not safe: see files.
const compactionInterval = 100 * 365 * 24 * time.Hour

// allWrites exceeds the number of concurrent writes.
const allWrites = math.MaxInt64

// startBroker starts the embedded broker. cleaned is the error of cleaning its log, despite which the broker runs. failed is called with
// the error of a broker that has stopped by itself.
func startBroker(ctx context.Context, o Options, now time.Time, failed context.CancelCauseFunc) (b *broker, cleaned, err error) {
	wait := reporter{report: o.Waiting, what: "open data directory " + o.DataDir}
	lock, made, err := lockDir(ctx, o.DataDir, wait.failed)
	if wait.over(err); err != nil {
		return nil, nil, err
	}
	b = &broker{lock: lock, made: made, discard: true, files: logIn(o.DataDir), sync: o.Sync, failed: failed,
		writes: semaphore.NewWeighted(allWrites)}
	if b.listener, err = listen(o.Listen); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), b.release())
	}
	if cleaned, err = b.start(now); err != nil {
		return nil, nil, errors.Join(err, b.listener.close(), b.release())
	}
	if o.Listen != "" {
		if err := sign(lock, o.Listen); err != nil {
			return nil, nil, errors.Join(err, b.stop())
		}
	}
	b.discard = false
	return b, cleaned, nil
}

// logIn returns the log in a data directory.
func logIn(dir string) files { return files{dir: filepath.Join(dir, "log")} }

// start opens the log, cleans it, completely for topics in whole, and starts kfake. kfake and the cleaning treat everything
// after a damaged batch as torn, so neither may see one.
func (b *broker) start(now time.Time, whole ...string) (cleaned, err error) {
	if err := b.files.open(); err != nil {
		return nil, fmt.Errorf("open the log of the embedded broker: %w", err)
	}
	if err := b.files.clean(now, whole...); err != nil {
		cleaned = fmt.Errorf("clean the log of the embedded broker: %w", err)
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID(clusterID),
		kfake.DataDir(b.files.dir),
		kfake.WithLogger(b),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return b.listener.acceptor(), nil }),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(compactionInterval.Milliseconds(), 10)}),
	}
	if b.sync {
		options = append(options, kfake.SyncWrites())
	}
	if b.cluster, err = kfake.NewCluster(options...); err != nil {
		return cleaned, fmt.Errorf("start the embedded broker on %s: %w", b.files.dir, err)
	}
	return cleaned, nil
}

// restart waits for the writes in flight, stops kfake, cleans its log as start does, and starts kfake again. Connections
// break; clients reconnect and wait until they are accepted.
func (b *broker) restart(ctx context.Context, now time.Time, whole ...string) error {
	if err := b.writes.Acquire(ctx, allWrites); err != nil {
		return err
	}
	defer b.writes.Release(allWrites)
	return b.running(func() error {
		b.cluster.Close()
		cleaned, err := b.start(now, whole...)
		both := errors.Join(cleaned, err)
		if b.stopped = err != nil; b.stopped {
			b.failed(both)
		}
		return both
	})
}

// running calls do while the broker neither starts nor stops.
func (b *broker) running(do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrClosed
	}
	return do()
}

// Repair repairs a damaged log in the data directory of an embedded broker so that it can be opened. All whole messages
// are kept, and the offsets of lost ones are not reused. It returns the repaired parts. The error wraps a *LockedError if a
// process still has the directory open after five seconds.
func Repair(ctx context.Context, dir string) (repaired []Repaired, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	lock, _, err := lockDir(ctx, dir, func(time.Time, error) {})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock(lock)) }()
	log := logIn(dir)
	if repaired, err = log.repair(); err == nil {
		err = log.open()
	}
	return repaired, err
}

// clean applies the topics' retention and compaction settings: it deletes expired segments, and restarts the broker for the rest
// if that pays.
func (b *broker) clean(ctx context.Context, now time.Time) error {
	if !isThere(b.lock) { // files that are still open take writes, which no later process finds
		err := fmt.Errorf("data directory %s was deleted or replaced while the embedded broker used it: its messages are lost",
			filepath.Dir(b.files.dir))
		b.failed(err)
		return err
	}
	failure := b.files.survey(now)
	for _, p := range b.files.plans {
		if p.expired == 0 {
			continue
		}
		before := p.segments[p.expired].base
		err := b.running(func() error { return b.cluster.DeleteRecords(p.topic.name, int32(p.number), before) })
		// Other processes may also delete topics and messages.
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.OffsetOutOfRange) {
			failure = errors.Join(failure, fmt.Errorf("delete the messages of %s[%d] before %d: %w", p.topic.name, p.number, before, err))
		}
	}
	if failure != nil || !pays(b.files.plans) { // with unreadable files the broker might not start again
		return failure
	}
	return b.restart(ctx, now)
}

// keepEnd makes sure that the offsets of a partition continue after all of its messages before an offset were deleted and
// the process is killed: until it is stopped, kfake records the end of a partition only in its segments, which are then
// gone.
func (b *broker) keepEnd(topic string, partition int, end int64) error {
	return b.running(func() error { return b.files.keepEnd(topic, partition, end) })
}

// Logf is the logging function of kfake. It records file errors: kfake answers a failed write with an unknown error code, and names the
// cause, such as a full disk, only in its log.
func (b *broker) Logf(level kfake.LogLevel, _ string, values ...any) {
	if level > kfake.LogLevelWarn {
		return
	}
	for _, v := range values {
		err, _ := v.(error)
		if fault, ok := errors.AsType[*fs.PathError](err); ok {
			b.faulty.Lock()
			b.fault = fault
			b.faulty.Unlock()
		}
	}
}

// explain returns the cause of a write that kfake has answered with an unknown error.
func (b *broker) explain(err error) error {
	b.faulty.Lock()
	defer b.faulty.Unlock()
	if b.fault == nil {
		return err
	}
	return &WriteError{Path: b.fault.Path, Err: b.fault.Err}
}

// stop stops the broker and releases the directory.
func (b *broker) stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.cluster.Close()
		b.stopped = true
	}
	return errors.Join(b.listener.close(), b.release())
}

// release releases the directory.
func (b *broker) release() error {
	if !b.discard || len(b.made) == 0 {
		return unlock(b.lock)
	}
	if written, err := b.files.written(); written || err != nil {
		return errors.Join(err, unlock(b.lock))
	}
	err := os.RemoveAll(b.made[0])
	for _, parent := range b.made[1:] {
		if os.Remove(parent) != nil {
			break // no longer empty
		}
	}
	return errors.Join(err, b.lock.Unlock())
}
