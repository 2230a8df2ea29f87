package kafkalog

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/twmb/franz-go/pkg/kfake"
)

// broker is the embedded broker. kfake speaks Kafka's protocol to whoever connects to the listener, without authentication, and
// keeps its log in the data directory. Its log survives SIGKILL: acknowledged messages are in the page cache, and a torn last
// batch is cut off on load. kfake does not lock the directory, so broker does.
type broker struct {
	lock     *flock.Flock
	cluster  *kfake.Cluster
	listener *listener
}

// compactionInterval turns kfake's own compaction off. It would compact every hour, ignore min.compaction.lag.ms, and delete a
// partition's files before it writes them again.
const compactionInterval = 100 * 365 * 24 * time.Hour

func startBroker(dir, address string) (*broker, error) {
	if dir == "" {
		return nil, errors.New("open log: set brokers or a data directory")
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	b := &broker{lock: lock}
	if b.listener, err = listen(address); err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), unlock(lock))
	}
	b.cluster, err = kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(filepath.Join(dir, "log")),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return b.listener, nil }),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(compactionInterval.Milliseconds(), 10)}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded broker on %s: %w", dir, err), b.listener.Close(), unlock(lock))
	}
	return b, nil
}

func (b *broker) stop() error {
	b.cluster.Close()
	return unlock(b.lock)
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
