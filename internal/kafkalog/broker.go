package kafkalog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// broker is the embedded broker. kfake speaks the Kafka protocol with clients of the listener, without authentication, and
// keeps its log in the data directory. The log survives SIGKILL: acknowledged messages are in the page cache, and a torn
// last batch is truncated on load. kfake does not lock the directory, so broker does.
type broker struct {
	lock     *os.File
	made     []string // created directories: the data directory, then its parents
	files    files
	cleaned  error // of the cleaning of the log when the broker started; it runs nevertheless
	sync     bool  // each batch is synced to disk before it is acknowledged
	failed   context.CancelCauseFunc
	listener *listener
	// writes is held by this process's writes, and exclusively by restart: otherwise a write might be applied but not answered.
	writes sync.RWMutex

	mu      sync.Mutex // held while cluster starts and stops
	cluster *kfake.Cluster
	stopped bool
	discard bool                         // stop removes the directories that startBroker created if no message was written
	fault   atomic.Pointer[fs.PathError] // the last file error of kfake; nil: none
}

// clusterID is the cluster id of embedded brokers.
const clusterID = "stagewise-embedded"

// compactionInterval disables kfake's own cleaning, which is not safe: see files.
const compactionInterval = 100 * 365 * 24 * time.Hour

// startBroker starts the embedded broker. failed is called with the error if the broker later fails permanently.
func startBroker(ctx context.Context, o Options, failed context.CancelCauseFunc) (*broker, error) {
	wait := reporter{report: o.Waiting, what: "open data directory " + o.DataDir}
	lock, made, err := lockDir(ctx, o.DataDir, o.Listen, wait.failed)
	if wait.over(err); err != nil {
		return nil, err
	}
	b := &broker{lock: lock, made: made, discard: true, files: logIn(o.DataDir), sync: o.Sync, failed: failed}
	if b.listener, err = listen(o.Listen); err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded broker: %w", err), b.release())
	}
	if err := b.start(); err != nil {
		return nil, errors.Join(err, b.listener.close(), b.release())
	}
	b.discard = false
	return b, nil
}

// logIn returns the log in a data directory.
func logIn(dir string) files { return files{dir: filepath.Join(dir, "log")} }

// start opens the log, cleans it, completely for topics in whole, and starts kfake. kfake and the cleaning treat everything
// after a damaged batch as torn, so neither may see one.
func (b *broker) start(whole ...string) (err error) {
	if err := b.files.open(); err != nil {
		if fault, ok := errors.AsType[*fs.PathError](err); ok && fault.Op == "write" {
			err = &WriteError{Path: fault.Path, Err: fault.Err}
		}
		return fmt.Errorf("open the log of the embedded broker: %w", err)
	}
	if b.cleaned = b.files.clean(time.Now(), whole...); b.cleaned != nil {
		b.cleaned = fmt.Errorf("clean the log of the embedded broker: %w", b.cleaned)
	}
	accepted := &acceptor{listener: b.listener}
	accepted.running, accepted.end = context.WithCancel(context.Background())
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID(clusterID),
		kfake.DataDir(b.files.dir),
		kfake.WithLogger(b),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return accepted, nil }),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(compactionInterval.Milliseconds(), 10)}),
	}
	if b.sync {
		options = append(options, kfake.SyncWrites())
	}
	if b.cluster, err = kfake.NewCluster(options...); err != nil {
		return fmt.Errorf("start the embedded broker on %s: %w", b.files.dir, err)
	}
	return nil
}

// restart waits for the writes in flight, stops kfake, cleans its log as start does, and starts kfake again. Connections
// break; clients reconnect and wait until they are accepted.
func (b *broker) restart(whole ...string) error {
	b.writes.Lock()
	defer b.writes.Unlock()
	return b.running(func() error {
		b.cluster.Close()
		err := b.start(whole...)
		both := errors.Join(b.cleaned, err)
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
	lock, _, err := lockDir(ctx, dir, "", func(time.Time, error) {})
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

// clean applies the topics' retention and compaction settings: it deletes expired segments, and restarts the broker for other
// removals if they are worthwhile.
func (b *broker) clean() error {
	if !isThere(b.lock) { // deleted files that are open accept writes, but no later process finds them
		err := fmt.Errorf("data directory %s was deleted or replaced while the embedded broker used it: its messages are lost",
			filepath.Dir(b.files.dir))
		b.failed(err)
		return err
	}
	failure := b.files.survey(time.Now())
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
	return b.restart()
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
			b.fault.Store(fault)
		}
	}
}

// explain returns the cause of a write that kfake has answered with an unknown error.
func (b *broker) explain(err error) error {
	if fault := b.fault.Load(); fault != nil {
		return &WriteError{Path: fault.Path, Err: fault.Err}
	}
	return err
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
	written := false
	err := b.files.each(func(p partition) error {
		written = written || p.bytes() > 0
		return nil
	})
	if written || err != nil {
		return errors.Join(err, unlock(b.lock))
	}
	err = os.RemoveAll(b.made[0])
	for _, parent := range b.made[1:] {
		if os.Remove(parent) != nil {
			break // no longer empty
		}
	}
	return errors.Join(err, b.lock.Close())
}

// listener accepts the connections of the embedded broker: from this process through a pipe in memory, and from other
// programs through a port, if configured. A pipe copies a message once; a socket copies it twice, with system calls.
//
// It outlives the broker's restarts. In between, connections wait.
type listener struct {
	port  net.Listener  // nil: no port
	taken chan net.Conn // accepted from the port, and from pipe
	ended chan struct{} // closed by close
	close func() error  // closes the port, once
}

// listen opens a port at the address, or none if the address is empty.
func listen(address string) (*listener, error) {
	l := &listener{taken: make(chan net.Conn), ended: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		close(l.ended)
		if l.port == nil {
			return nil
		}
		return l.port.Close()
	})
	if address == "" {
		return l, nil
	}
	if !IsLoopback(address) {
		return nil, fmt.Errorf("listen on %s: the embedded broker has no authentication, so it listens on a loopback address only", address)
	}
	var err error
	if l.port, err = net.Listen("tcp", address); err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.port.Accept()
			if err != nil {
				_ = l.close()
				return
			}
			select {
			case l.taken <- conn:
			case <-l.ended:
				conn.Close()
				return
			}
		}
	}()
	return l, nil
}

// IsLoopback reports whether an address is host:port, on the loopback interface.
func IsLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil && secure.IsLoopback(host)
}

// address returns the address of the port, or a placeholder for the pipe, which clients need but must not dial.
func (l *listener) address() net.Addr {
	if l.port == nil {
		return pipeAddress{}
	}
	return l.port.Addr()
}

// acceptor is the listener of one broker instance, from its start to its end.
type acceptor struct {
	*listener
	running context.Context
	end     context.CancelFunc // of running
}

// Accept returns the next connection of either kind.
func (a *acceptor) Accept() (net.Conn, error) {
	select {
	case conn := <-a.taken:
		return conn, nil
	case <-a.running.Done():
	case <-a.ended:
	}
	return nil, net.ErrClosed
}

// Close ends Accept. The port stays open, for the next broker.
func (a *acceptor) Close() error {
	a.end()
	return nil
}

// Addr is the address that the broker advertises to clients.
func (a *acceptor) Addr() net.Addr { return a.address() }

// pipeAddress is the advertised address of a broker without a port. Names under .invalid do not resolve (RFC 2606).
type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "embedded.invalid:9092" }

// pipe opens a connection from this process to the broker.
func (l *listener) pipe(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.taken <- newEnd(there):
		return newEnd(here), nil
	case <-l.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newEnd(pipe net.Conn) net.Conn { return &end{pipe, bufio.NewReaderSize(pipe, pipeBytes)} }

// pipeBytes is the read size of a pipe end. A write to a pipe waits for its reader, and kafka-go reads only 4 KB at a
// time.
const pipeBytes = 64 << 10

// end is one end of a pipe.
type end struct {
	net.Conn
	read *bufio.Reader
}

func (e *end) Read(p []byte) (int, error) { return e.read.Read(p) }

const (
	// lockPatience is the maximum wait for a data directory that another process uses: that process may be stopping.
	lockPatience = 5 * time.Second
	// lockInterval is the interval between attempts: the operating system does not notify of a released lock.
	lockInterval = 50 * time.Millisecond
)

// lockDir locks a data directory as lockNow does. While another process holds the lock, it retries until lockPatience has
// passed or the context ends, and calls locked with the time of its first attempt.
func lockDir(ctx context.Context, dir, listen string, locked func(since time.Time, err error)) (lock *os.File, made []string, err error) {
	for began := time.Now(); ; {
		lock, made, err = lockNow(dir, listen)
		if !errors.As(err, new(*LockedError)) || time.Since(began) >= lockPatience {
			return lock, made, err
		}
		locked(began, err)
		select {
		case <-time.After(lockInterval):
		case <-ctx.Done():
			return nil, nil, errors.Join(err, context.Cause(ctx))
		}
	}
}

// lockNow locks a data directory, and writes the process id and the address at which its broker is to listen into the lock file. The
// operating system releases the lock when a process dies, so a leftover lock file is harmless. made are the directories that it created,
// each before its parent.
func lockNow(dir, listen string) (lock *os.File, made []string, err error) {
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, path)
	}
	err = os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755)
	if err == nil { // readable only by the owner, because it contains examples; an existing directory keeps its mode
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w", err)
	}
	if lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	switch err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		owner, _ := os.ReadFile(lock.Name())
		first, address, _ := strings.Cut(string(owner), "\n")
		pid, _ := strconv.Atoi(first)
		return nil, nil, errors.Join(&LockedError{Dir: dir, PID: pid, Listen: address}, lock.Close())
	case err != nil:
		return nil, nil, errors.Join(fmt.Errorf("lock data directory %s: %w", dir, err), lock.Close())
	case !isThere(lock): // the previous process has removed the directory
		return nil, nil, errors.Join(&LockedError{Dir: dir}, lock.Close())
	}
	if err := sign(lock, listen); err != nil {
		return nil, nil, errors.Join(err, unlock(lock))
	}
	return lock, made, nil
}

// sign writes the process id into a locked file, and in a second line the address at which its broker listens, if any.
func sign(lock *os.File, address string) error {
	text := strconv.Itoa(os.Getpid())
	if address != "" {
		text += "\n" + address
	}
	if err := os.WriteFile(lock.Name(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("lock data directory %s: %w", filepath.Dir(lock.Name()), err)
	}
	return nil
}

// isThere reports whether the locked file is the one that other processes would lock.
func isThere(lock *os.File) bool {
	locked, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(lock.Name())
	return err == nil && os.SameFile(locked, there)
}

// unlock empties the lock file but keeps it: if it were removed, two processes could lock two files of the same name.
func unlock(lock *os.File) error {
	return errors.Join(os.Truncate(lock.Name(), 0), lock.Close())
}

const (
	// cleanInterval is the interval at which a log with an embedded broker cleans itself. The broker pauses in proportion to
	// the data written since: 1 s with 1,000 rows/s and updates of 4 × 1024, and 5 s at an interval of ten minutes.
	cleanInterval    = time.Minute
	maxCleanInterval = 24 * time.Hour // the maximum retry interval after errors
)

// clean deletes messages from the embedded broker's log according to the topics' settings: cleanup.policy, retention.ms,
// retention.bytes, segment.bytes, segment.ms, min.compaction.lag.ms and delete.retention.ms. Without a retention setting,
// messages are kept. Open and keepClean call it.
//
// Expired segments are deleted while the broker runs. Compaction, and retention within the active segment, require a
// restart of the broker, which takes about a second and a half for each GB of the log, and blocks readers and writers. To
// make this rare, the broker restarts when that frees a sixteenth of the log, or when a message is older than retention.ms
// and segment.ms together. If the broker does not start again, the error is returned by this and all later calls of the
// Log.
func (l *Log) clean() error {
	return l.alone("clean the log", l.broker.clean)
}

// Compact removes superseded and tombstoned messages of compacted topics from the embedded broker's files, including the
// active segment. It blocks readers and writers. On other brokers, which compact their logs themselves, it does nothing.
func (l *Log) Compact(_ context.Context, topics ...string) error {
	if l.broker == nil {
		return nil
	}
	return l.alone("compact "+strings.Join(topics, ", "), func() error { return l.broker.restart(topics...) })
}

// alone calls do while nothing else cleans the log. what describes it, for its error.
func (l *Log) alone(what string, do func() error) error {
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// keepClean cleans the log periodically until the log is closed. err is the error of an earlier cleaning, or nil. After
// an error it reports a wait and backs off.
func (l *Log) keepClean(every time.Duration, err error) {
	wait := reporter{report: l.waiting, what: "clean the log"}
	for interval := every; ; err = l.clean() {
		if err != nil {
			interval = min(2*interval, max(every, maxCleanInterval))
			wait.failed(time.Now().Add(-minWaitInterval), err) // to report it at once
		} else {
			wait.over(nil)
			interval = every
		}
		select {
		case <-time.After(interval):
		case <-l.ctx.Done():
			wait.over(context.Cause(l.ctx))
			return
		}
	}
}
