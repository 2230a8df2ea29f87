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
	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/internal/kafkalog/disk"
)

// Broker is the embedded broker. kfake speaks Kafka's protocol to whoever connects to the listener, without authentication, and
// keeps its log in the data directory. Its log survives SIGKILL: acknowledged messages are in the page cache, and a torn last
// batch is cut off on load. kfake does not lock the directory, so Broker does.
type Broker struct {
	lock     *flock.Flock
	made     []string // the folders that were not there before: the data directory, then those that it is in
	disk     disk.Log
	sync     bool // each batch is on the disk before it is acknowledged
	faults   faults
	listener *listener
	// writes is held by this process's writes, and all of it by restart: otherwise a write might be applied but not answered.
	writes *semaphore.Weighted

	mu      sync.Mutex // held while cluster starts and stops
	cluster *kfake.Cluster
	stopped bool
	discard bool // stop removes what start made if no message was written
}

// ClusterID is the id of the cluster that an embedded broker says it is.
const ClusterID = "stagewise-embedded"

// compactionInterval turns kfake's own cleaning off, which is not safe: see package disk.
const compactionInterval = 100 * 365 * 24 * time.Hour

// allWrites is more than the number of writes at any time.
const allWrites = math.MaxInt64

// Options say where the log of a broker is and how to reach it.
type Options struct {
	// Dir is the data directory. Only one process at a time can have it open.
	Dir string
	// Listen is a host:port of the loopback interface for other programs; with port 0 it is any free port. Empty: none can connect.
	Listen string
	// Sync makes the broker acknowledge a message only when the disk has it.
	Sync bool
}

// Start starts a broker. cleaned is the error of cleaning its log, with which it runs all the same. The error is a *LockedError if another
// process has the directory open, and wraps a *disk.DamagedError if a file of the log is damaged: see [Repair].
func Start(o Options, now time.Time) (b *Broker, cleaned, err error) {
	dir := o.Dir
	lock, made, err := lockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	b = &Broker{lock: lock, made: made, discard: true, disk: logIn(dir), sync: o.Sync, writes: semaphore.NewWeighted(allWrites)}
	if b.listener, err = listen(o.Listen); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), b.release())
	}
	if cleaned, err = b.start(now); err != nil {
		return nil, nil, errors.Join(err, b.listener.close(), b.release())
	}
	b.discard = false
	return b, cleaned, nil
}

// logIn returns the log of a data directory.
func logIn(dir string) disk.Log { return disk.Log{Dir: filepath.Join(dir, "log")} }

// start verifies the log, cleans it, of topics that are among whole all that may go, and starts kfake. kfake and the
// cleaning take what comes after a damaged batch for torn off, so neither may see one.
func (b *Broker) start(now time.Time, whole ...string) (cleaned, err error) {
	if err := b.disk.Restore(); err != nil {
		return nil, fmt.Errorf("restore the log of the embedded broker: %w", err)
	}
	if err := b.disk.Verify(); err != nil {
		return nil, fmt.Errorf("verify the log of the embedded broker: %w", err)
	}
	if err := b.disk.Unseal(); err != nil {
		return nil, fmt.Errorf("open the log of the embedded broker: %w", err)
	}
	if err := b.disk.Clean(now, whole...); err != nil {
		cleaned = fmt.Errorf("clean the log of the embedded broker: %w", err)
	}
	if err := b.disk.Prepare(); err != nil {
		return cleaned, fmt.Errorf("prepare the log of the embedded broker: %w", err)
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID(ClusterID),
		kfake.DataDir(b.disk.Dir),
		kfake.WithLogger(&b.faults),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return b.listener.acceptor(), nil }),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(compactionInterval.Milliseconds(), 10)}),
	}
	if b.sync {
		options = append(options, kfake.SyncWrites())
	}
	if b.cluster, err = kfake.NewCluster(options...); err != nil {
		return cleaned, fmt.Errorf("start the embedded broker on %s: %w", b.disk.Dir, err)
	}
	return cleaned, nil
}

// Restart stops kfake, cleans its log as start does, and starts it again, after the writes that are under way. Connections break; clients
// connect again and wait until they are accepted. dead means that kfake did not start again.
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

// Repair makes the log in the data directory of an embedded broker one that can be opened, if a file of it is damaged. All that is whole
// stays, and no message gets the offset of one that is lost. It returns what it has repaired. It returns a *LockedError if a process has
// the directory open.
func Repair(dir string) (repaired []disk.Repaired, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	lock, _, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock(lock)) }()
	log := logIn(dir)
	if err := log.Restore(); err != nil {
		return nil, err
	}
	if repaired, err = log.Repair(); err == nil {
		err = log.Verify()
	}
	return repaired, err
}

// Survey says what of the log may go.
func (b *Broker) Survey(now time.Time) (disk.Survey, error) { return b.disk.Survey(now) }

// BeginWrite waits while the broker restarts. The caller calls EndWrite when its write is answered: a restart waits for it.
func (b *Broker) BeginWrite(ctx context.Context) error { return b.writes.Acquire(ctx, 1) }

// EndWrite ends a write.
func (b *Broker) EndWrite() { b.writes.Release(1) }

// Pipe connects this process with the broker.
func (b *Broker) Pipe(ctx context.Context) (net.Conn, error) { return b.listener.pipe(ctx) }

// Address returns the address at which the broker listens, or a name for the pipe, which clients need but must not dial.
func (b *Broker) Address() net.Addr { return b.listener.address() }

// Listens reports whether other programs can connect.
func (b *Broker) Listens() bool { return b.listener.port != nil }

// Cluster returns what answers requests, until the next restart: tests inject faults there.
func (b *Broker) Cluster() *kfake.Cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cluster
}

// Cut deletes the messages of a partition before an offset.
func (b *Broker) Cut(topic string, partition int, before int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrClosed
	}
	return b.cluster.DeleteRecords(topic, int32(partition), before)
}

// KeepEnd makes sure that the offsets of a partition go on if all of its messages before an offset were deleted, and
// the process is killed: kfake notes where a partition ends in its files, which are gone then, until it is stopped.
func (b *Broker) KeepEnd(topic string, partition int, end int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrClosed
	}
	return b.disk.KeepEnd(topic, partition, end)
}

// Stop stops the broker and releases the directory.
func (b *Broker) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.cluster.Close()
		b.stopped = true
		_ = b.disk.Seal() // if it has failed, as on a full disk, the log is opened as after a kill
	}
	return errors.Join(b.listener.close(), b.release())
}

// DiscardUnused makes stop remove the folders that start made, if no message was written.
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
	if written, err := b.disk.Written(); written || err != nil {
		return errors.Join(err, unlock(b.lock))
	}
	err := os.RemoveAll(b.made[0])
	for _, parent := range b.made[1:] {
		if os.Remove(parent) != nil {
			break // something else is in it by now
		}
	}
	return errors.Join(err, b.lock.Unlock())
}
