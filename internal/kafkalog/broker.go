package kafkalog

import (
	"context"
	"errors"
	"fmt"
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
	disk     disk.Log
	listener *listener
	// writes is held by this process's writes, and all of it by restart: otherwise a write might be applied but not answered.
	writes *semaphore.Weighted

	mu      sync.Mutex // held while cluster starts and stops
	cluster *kfake.Cluster
	stopped bool
}

// compactionInterval turns kfake's own cleaning off, which is not safe: see package disk.
const compactionInterval = 100 * 365 * 24 * time.Hour

// allWrites is more than the number of writes at any time.
const allWrites = math.MaxInt64

// startBroker starts a broker. cleaned is the error of cleaning its log, with which it runs all the same.
func startBroker(dir, address string, now time.Time) (b *broker, cleaned, err error) {
	if dir == "" {
		return nil, nil, errors.New("open log: set brokers or a data directory")
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	b = &broker{lock: lock, disk: disk.Log{Dir: filepath.Join(dir, "log")}, writes: semaphore.NewWeighted(allWrites)}
	if b.listener, err = listen(address); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), unlock(lock))
	}
	if cleaned, err = b.start(now); err != nil {
		return nil, nil, errors.Join(err, b.listener.close(), unlock(lock))
	}
	return b, cleaned, nil
}

// start cleans the log and starts kfake.
func (b *broker) start(now time.Time) (cleaned, err error) {
	if err := b.disk.Restore(); err != nil {
		return nil, fmt.Errorf("restore the log of the embedded broker: %w", err)
	}
	if err := b.disk.Clean(now); err != nil {
		cleaned = fmt.Errorf("clean the log of the embedded broker: %w", err)
	}
	if err := b.disk.Prepare(); err != nil {
		return cleaned, fmt.Errorf("prepare the log of the embedded broker: %w", err)
	}
	b.cluster, err = kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.ClusterID(embeddedCluster),
		kfake.DataDir(b.disk.Dir),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return b.listener.acceptor(), nil }),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(compactionInterval.Milliseconds(), 10)}),
	)
	if err != nil {
		return cleaned, fmt.Errorf("start the embedded broker on %s: %w", b.disk.Dir, err)
	}
	return cleaned, nil
}

// restart stops kfake, cleans its log, and starts it again, after the writes that are under way. Connections break; clients
// connect again and wait until they are accepted. dead means that kfake did not start again.
func (b *broker) restart(ctx context.Context, now time.Time) (dead bool, err error) {
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
	cleaned, err := b.start(now)
	b.stopped = err != nil
	return b.stopped, errors.Join(cleaned, err)
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

// stop stops the broker and releases the directory.
func (b *broker) stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.cluster.Close()
		b.stopped = true
	}
	return errors.Join(b.listener.close(), unlock(b.lock))
}

// lockDir locks a data directory and writes this process's id into the lock file. The operating system releases the lock when
// a process dies, so a leftover lock file does no harm.
func lockDir(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if !locked {
		owner, _ := os.ReadFile(lock.Path())
		pid, _ := strconv.Atoi(strings.TrimSpace(string(owner)))
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	if err := os.WriteFile(lock.Path(), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w", dir, err), unlock(lock))
	}
	return lock, nil
}

// unlock empties the lock file but keeps it: if it were removed, two processes could lock two files of the same name.
func unlock(lock *flock.Flock) error {
	return errors.Join(os.Truncate(lock.Path(), 0), lock.Unlock())
}
