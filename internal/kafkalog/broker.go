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

// broker is the embedded one: kfake speaks Kafka's protocol on a port of the loopback interface and keeps its log under
// the data directory. It survives SIGKILL (what was acknowledged is in the page cache; a torn last batch is cut off when
// it loads), but takes no lock on its directory, so we do.
type broker struct {
	lock     *flock.Flock
	cluster  *kfake.Cluster
	listener *listener
}

// never is when kfake cleans its logs by itself. It would compact every hour, without regard to min.compaction.lag.ms,
// by deleting a partition's files before it writes them again.
const never = 100 * 365 * 24 * time.Hour

func startBroker(dir string) (*broker, error) {
	if dir == "" {
		return nil, errors.New("open log: neither brokers nor a data directory are given")
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	b := &broker{lock: lock}
	b.cluster, err = kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(filepath.Join(dir, "log")),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			port, err := net.Listen(network, address)
			if err != nil {
				return nil, err
			}
			b.listener = newListener(port)
			return b.listener, nil
		}),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(never.Milliseconds(), 10)}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded broker on %s: %w", dir, err), unlock(lock))
	}
	return b, nil
}

func (b *broker) stop() error {
	b.cluster.Close()
	return unlock(b.lock)
}

// lockDir takes the lock of a data directory and writes into it whose it is. The operating system frees the lock of a
// process that dies, so a lock file that lies about is no obstacle.
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

// unlock leaves an empty file: removing it would let two processes lock two files of one name.
func unlock(lock *flock.Flock) error {
	return errors.Join(os.Truncate(lock.Path(), 0), lock.Unlock())
}
