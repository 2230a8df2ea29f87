package embedded

import (
	"context"
	"errors"
	"fmt"
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

// Broker is the embedded broker. kfake speaks the Kafka protocol with clients of the listener, without authentication, and
// keeps its log in the data directory. The log survives SIGKILL: acknowledged messages are in the page cache, and a torn
// last batch is truncated on load. kfake does not lock the directory, so Broker does.
type Broker struct {
	lock     *flock.Flock
	made     []string // created directories: the data directory, then its parents
	files    files
	sync     bool // each batch is synced to disk before it is acknowledged
	faults   faults
	listener *listener
	// writes is acquired by this process's writes, and exclusively by restart: otherwise a write might be applied but not
	// answered.
	writes *semaphore.Weighted

	mu      sync.Mutex // held while cluster starts and stops
	cluster *kfake.Cluster
	stopped bool
	discard bool // Stop removes the directories that Start created if no message was written
}

// ClusterID is the cluster id of embedded brokers.
const ClusterID = "stagewise-embedded"

// compactionInterval disables kfake's own cleaning, which is not safe: see files.
const compactionInterval = 100 * 365 * 24 * time.Hour

// allWrites exceeds the number of concurrent writes.
const allWrites = math.MaxInt64

// Options are the location of a broker's log and its listener.
type Options struct {
	// Dir is the data directory. Only one process at a time can have it open.
	Dir string
	// Listen is a host:port of the loopback interface for other programs; with port 0 it is any free port. Empty: no listener.
	Listen string
	// Sync makes the broker acknowledge a message only after it is synced to disk.
	Sync bool
	// Locked is called while Start waits for a process that has the directory open.
	Locked func(since time.Time, err error)
}

// Start starts a broker. cleaned is the error of cleaning its log, despite which the broker runs. The error wraps a
// *LockedError if another process still has the directory open after five seconds, and a *DamagedError if a file of
// the log is damaged: see [Repair].
func Start(ctx context.Context, o Options, now time.Time) (b *Broker, cleaned, err error) {
	dir := o.Dir
	lock, made, err := lockDir(ctx, dir, o.Locked)
	if err != nil {
		return nil, nil, err
	}
	b = &Broker{lock: lock, made: made, discard: true, files: logIn(dir), sync: o.Sync, writes: semaphore.NewWeighted(allWrites)}
	if b.listener, err = listen(o.Listen); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), b.release())
	}
	if cleaned, err = b.start(now); err != nil {
		return nil, nil, errors.Join(err, b.listener.close(), b.release())
	}
	if o.Listen != "" {
		if err := sign(lock, o.Listen); err != nil {
			return nil, nil, errors.Join(err, b.Stop())
		}
	}
	b.discard = false
	return b, cleaned, nil
}

// logIn returns the log in a data directory.
func logIn(dir string) files { return files{dir: filepath.Join(dir, "log")} }

// start opens the log, cleans it, completely for topics in whole, and starts kfake. kfake and the cleaning treat everything
// after a damaged batch as torn, so neither may see one.
func (b *Broker) start(now time.Time, whole ...string) (cleaned, err error) {
	if err := b.files.open(); err != nil {
		return nil, fmt.Errorf("open the log of the embedded broker: %w", err)
	}
	if err := b.files.clean(now, whole...); err != nil {
		cleaned = fmt.Errorf("clean the log of the embedded broker: %w", err)
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID(ClusterID),
		kfake.DataDir(b.files.dir),
		kfake.WithLogger(&b.faults),
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

// Restart waits for the writes in flight, stops kfake, cleans its log as start does, and starts kfake again. Connections
// break; clients reconnect and wait until they are accepted. dead means that kfake did not start again.
func (b *Broker) Restart(ctx context.Context, now time.Time, whole ...string) (dead bool, err error) {
	if err := b.writes.Acquire(ctx, allWrites); err != nil {
		return false, err
	}
	defer b.writes.Release(allWrites)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false, ErrClosed
	}
	b.cluster.Close()
	cleaned, err := b.start(now, whole...)
	b.stopped = err != nil
	return b.stopped, errors.Join(cleaned, err)
}

// Repair repairs a damaged log in the data directory of an embedded broker so that it can be opened. All whole messages
// are kept, and the offsets of lost ones are not reused. It returns the repaired parts. The error wraps a *LockedError if a
// process still has the directory open after five seconds.
func Repair(ctx context.Context, dir string) (repaired []Repaired, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	lock, _, err := lockDir(ctx, dir, nil)
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

// Clean applies the topics' retention and compaction settings: it deletes expired segments, and restarts the broker for the rest
// if that pays. dead means that the broker no longer runs.
func (b *Broker) Clean(ctx context.Context, now time.Time) (dead bool, err error) {
	if !isThere(b.lock) { // files that are still open take writes, which no later process finds
		return true, fmt.Errorf("data directory %s was deleted or replaced while the embedded broker used it: its messages are lost",
			filepath.Dir(b.files.dir))
	}
	found, failure := b.files.survey(now)
	for _, e := range found.expired {
		err := b.cut(e)
		// Other processes may also delete topics and messages.
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.OffsetOutOfRange) {
			failure = errors.Join(failure, fmt.Errorf("delete the messages of %s[%d] before %d: %w", e.topic, e.partition, e.before, err))
		}
	}
	if failure != nil || !found.pays() { // with unreadable files the broker might not start again
		return false, failure
	}
	return b.Restart(ctx, now)
}

// cut deletes the expired messages of a partition.
func (b *Broker) cut(e expired) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrClosed
	}
	return b.cluster.DeleteRecords(e.topic, int32(e.partition), e.before)
}

// BeginWrite waits while the broker restarts. The caller calls EndWrite after the response: a restart waits for it.
func (b *Broker) BeginWrite(ctx context.Context) error { return b.writes.Acquire(ctx, 1) }

// EndWrite ends a write.
func (b *Broker) EndWrite() { b.writes.Release(1) }

// Pipe opens a connection from this process to the broker.
func (b *Broker) Pipe(ctx context.Context) (net.Conn, error) { return b.listener.pipe(ctx) }

// Address returns the address of the listener, or a placeholder for the pipe, which clients need but must not dial.
func (b *Broker) Address() net.Addr { return b.listener.address() }

// Listens reports whether the broker has a listener for other programs.
func (b *Broker) Listens() bool { return b.listener.port != nil }

// Cluster returns the kfake cluster, valid until the next restart: tests inject faults there.
func (b *Broker) Cluster() *kfake.Cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cluster
}

// KeepEnd makes sure that the offsets of a partition continue after all of its messages before an offset were deleted and
// the process is killed: until it is stopped, kfake records the end of a partition only in its segments, which are then
// gone.
func (b *Broker) KeepEnd(topic string, partition int, end int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrClosed
	}
	return b.files.keepEnd(topic, partition, end)
}

// Stop stops the broker and releases the directory.
func (b *Broker) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.cluster.Close()
		b.stopped = true
	}
	return errors.Join(b.listener.close(), b.release())
}

// DiscardUnused makes Stop remove the directories that Start created, if no message was written.
func (b *Broker) DiscardUnused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discard = true
}

// release releases the directory.
func (b *Broker) release() error {
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
