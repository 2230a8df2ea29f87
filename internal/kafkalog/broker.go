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
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/internal/kafkalog/disk"
)

// broker is the embedded broker. kfake speaks Kafka's protocol to whoever connects to the listener, without authentication, and
// keeps its log in the data directory. Its log survives SIGKILL: acknowledged messages are in the page cache, and a torn last
// batch is cut off on load. kfake does not lock the directory, so broker does.
type broker struct {
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

// compactionInterval turns kfake's own cleaning off, which is not safe: see package disk.
const compactionInterval = 100 * 365 * 24 * time.Hour

// allWrites is more than the number of writes at any time.
const allWrites = math.MaxInt64

// startBroker starts a broker. cleaned is the error of cleaning its log, with which it runs all the same.
func startBroker(o Options, now time.Time) (b *broker, cleaned, err error) {
	dir := o.DataDir
	if dir == "" {
		return nil, nil, errors.New("open log: set brokers or a data directory")
	}
	lock, made, err := lockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	b = &broker{lock: lock, made: made, discard: true, disk: logIn(dir), sync: o.Sync, writes: semaphore.NewWeighted(allWrites)}
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

// start verifies the log, cleans it, of topics that are among whole all that may go, and starts kfake. kfake and the cleaning take what comes after a damaged batch for torn off, so
// neither may see one.
func (b *broker) start(now time.Time, whole ...string) (cleaned, err error) {
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
		kfake.ClusterID(embeddedCluster),
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

// restart stops kfake, cleans its log as start does, and starts it again, after the writes that are under way. Connections break; clients
// connect again and wait until they are accepted. dead means that kfake did not start again.
func (b *broker) restart(ctx context.Context, now time.Time, whole ...string) (dead bool, err error) {
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

// Repaired is one place of the embedded broker's log that was damaged.
type Repaired = disk.Repaired

// DamagedError means that a file of the embedded broker's log is not as it was written.
type DamagedError = disk.DamagedError

// Repair makes the log in the data directory of an embedded broker one that can be opened, if a file of it is damaged. All that is whole
// stays, and no message gets the offset of one that is lost. It returns what it has repaired. It returns a *LockedError if a process has
// the directory open.
func Repair(dir string) (repaired []Repaired, err error) {
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

// cut deletes the messages of a partition before an offset.
func (b *broker) cut(topic string, partition int, before int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrClosed
	}
	return b.cluster.DeleteRecords(topic, int32(partition), before)
}

// keepEnd makes sure that the offsets of a partition go on if all of its messages before an offset were deleted, and the process is killed: kfake
// notes where a partition ends in its files, which are gone then, until it is stopped.
func (b *broker) keepEnd(topic string, partition int, end int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return ErrClosed
	}
	return b.disk.KeepEnd(topic, partition, end)
}

// stop stops the broker and releases the directory.
func (b *broker) stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.cluster.Close()
		b.stopped = true
		_ = b.disk.Seal() // if it has failed, as on a full disk, the log is opened as after a kill
	}
	return errors.Join(b.listener.close(), b.release())
}

// discardUnused makes stop remove the folders that start made, if no message was written.
func (b *broker) discardUnused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discard = true
}

// release releases the directory.
func (b *broker) release() error {
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

// lockDir locks a data directory and writes this process's id into the lock file. The operating system releases the lock when
// a process dies, so a leftover lock file does no harm. made are the folders that it had to make, each before the one that it is in.
func lockDir(dir string) (lock *flock.Flock, made []string, err error) {
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, path)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w", err)
	}
	lock = flock.New(filepath.Join(dir, "lock"))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if !locked {
		owner, _ := os.ReadFile(lock.Path())
		pid, _ := strconv.Atoi(strings.TrimSpace(string(owner)))
		return nil, nil, &LockedError{Dir: dir, PID: pid}
	}
	if !isThere(lock) { // the process that had it has removed the directory
		return nil, nil, errors.Join(&LockedError{Dir: dir}, lock.Unlock())
	}
	if err := os.WriteFile(lock.Path(), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("lock data directory %s: %w", dir, err), unlock(lock))
	}
	return lock, made, nil
}

// isThere reports whether the locked file is the one that other processes would lock.
func isThere(lock *flock.Flock) bool {
	locked, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(locked, there)
}

// unlock empties the lock file but keeps it: if it were removed, two processes could lock two files of the same name.
func unlock(lock *flock.Flock) error {
	return errors.Join(os.Truncate(lock.Path(), 0), lock.Unlock())
}
