// Package protocol defines the protocol between the roles of a pipeline: its topics, how messages are read and written
// there, and how the state of a run is derived from them.
//
//	plans topic ──Ledger──▶ runs, their ends, sealed sources
//	weights topic ──Chain──▶ accepted records ──Due──▶ the visit that comes next
//	examples topic ──Counting──▶ the messages that count; ──ReadTopicProgress──▶ the read position in a followed topic
//	state topic ──ReadWindow──▶ the window of a chain
//
// The roles share no memory: they communicate through topics. Ledger and Chain are folds over messages, so every process
// that reads the same topics derives the same state. Client reads and writes the topics for one process. The meaning of
// messages and of their order is defined only here. Package event reports events to a recorder.
package protocol

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

// Client reads and writes the topics of one pipeline. Every role has one. It is safe for concurrent use.
type Client struct {
	Log    Log
	Topics Topics
	Memory memory.Allocator // Arrow allocates from it
	// Chunk is the approximate maximum size of the messages of a record, in bytes; 0: the brokers' limit.
	Chunk int
	// Fresh returns a string that is unique across calls and processes.
	Fresh func() string
	Clock Clock
	// Alone means that no other process reads the topics, as on an embedded broker without a listener. Nothing is then
	// retained for other processes.
	Alone bool
	// GiveUp is the time after which a run that no process has started ends as failed; 0: never.
	GiveUp time.Duration
	// KeepRuns is the number of ended runs that Prune leaves on the plans topic; 0 means 32.
	KeepRuns int

	// Distribute means that updates are planned for all workers, regardless of their size.
	Distribute bool
	// MatrixBytes is the maximum size of the matrices of a stage of sparse rows. Without a maximum it is 0.
	MatrixBytes int64

	newest *atomic.Pointer[model.Model] // newest version of a chain: see Remember; nil: none is remembered
	ledger *atomic.Pointer[Ledger]      // last ledger read: see ReadLedger; nil: none is remembered
	swept  *atomic.Int64                // offset of the versions topic: see sweepVersions; nil: nothing is remembered
}

// keepRuns returns KeepRuns or its default.
func (c *Client) keepRuns() int { return cmp.Or(c.KeepRuns, 32) }

// NewClient returns a client of the named pipeline. Arrow allocates from mem; nil means the Go heap.
func NewClient(log *kafkalog.Log, name string, mem memory.Allocator) *Client {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return &Client{
		Log: brokers{log}, Topics: TopicsOf(name), Memory: mem, Fresh: rand.Text, Alone: log.Embedded() && len(log.Addr()) == 0,
		newest: new(atomic.Pointer[model.Model]), ledger: new(atomic.Pointer[Ledger]), swept: new(atomic.Int64),
	}
}

// Beside returns a client, on the same log, of another pipeline that reads the examples of this one.
func (c *Client) Beside(name string) *Client {
	beside := *c
	beside.Topics, beside.GiveUp = TopicsOf(name), 0
	beside.Topics.Examples = c.Topics.Examples
	beside.newest, beside.ledger, beside.swept = new(atomic.Pointer[model.Model]), new(atomic.Pointer[Ledger]), new(atomic.Int64)
	return &beside
}

// Between yields the messages of a partition with offsets in [from, to), in order. It ends with the first error, unless messages were
// deleted: after an error for which [Deleted] returns true, a caller that continues gets the remaining messages.
func (c *Client) Between(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for m, err := range c.Read(ctx, topic, partition, from, to) {
			for i := range m.Len() {
				if !yield(m.Part(i, i+1), err) {
					return
				}
			}
		}
	}
}

// Read is [Client.Between], but yields messages of an archive with consecutive offsets together.
func (c *Client) Read(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for next, again := from, true; again; {
			again = false
			for m, err := range c.Log.Range(ctx, topic, partition, next, to) {
				if !yield(m, err) {
					return
				}
				if first, deleted := Deleted(err); deleted {
					next, again = first, true
				}
			}
		}
	}
}

// Remaining is [Client.Between] for the part of the range that is still on the partition, even if messages are deleted meanwhile.
func (c *Client) Remaining(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		first, end, err := c.Log.Bounds(ctx, topic, partition)
		if err != nil {
			yield(Message{}, err)
			return
		}
		for m, err := range c.Between(ctx, topic, partition, max(first, from), min(to, end)) {
			if _, deleted := Deleted(err); !deleted && !yield(m, err) {
				return
			}
		}
	}
}

// Now returns the end offsets of the weights and statistics topics. The records of a run that starts now come after them.
func (c *Client) Now(ctx context.Context) (s schemas.Since, err error) {
	if _, s.Weights, err = c.Log.Bounds(ctx, c.Topics.Weights, 0); err != nil {
		return s, err
	}
	statistics, err := c.Log.Spans(ctx, c.Topics.Statistics)
	for _, bounds := range statistics {
		s.Statistics = append(s.Statistics, bounds.To)
	}
	return s, err
}

// Topics are the names of a pipeline's topics.
type Topics struct {
	Name                                                                                 string // of the pipeline
	Examples, Residuals, Statistics, Weights, Versions, State, Plans, Forget, Quarantine string

	Predictions string // written by score, unless another topic is configured
	Origins     string // of examples that expire, if ingest makes them from a topic
}

// TopicsOf returns the topics of the named pipeline.
func TopicsOf(name string) Topics {
	return Topics{
		Name: name, Examples: name + ".examples", Residuals: name + ".residuals", Statistics: name + ".statistics",
		Weights: name + ".weights", Versions: name + ".versions", State: name + ".state", Plans: name + ".plans",
		Forget: name + ".forget", Quarantine: name + ".quarantine", Predictions: name + ".predictions",
		Origins: name + ".origins",
	}
}

// The roles of processes, named after their commands.
const (
	RoleIngest = "ingest"
	RoleWork   = "work"
	RoleSolve  = "solve"
	RoleRun    = "run"
	RoleScore  = "score"
	RoleServe  = "serve"
)

// Group returns the consumer group of the processes of a role. That of scorers is named after the topic that they write to. Servers
// share no partitions; their group only makes them visible.
func (t Topics) Group(role string) string {
	if role == RoleScore {
		return t.Predictions
	}
	return t.Name + "." + role
}

// Clock tells the time. The zero value is the system clock.
type Clock func() time.Time

// Now returns the time.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return c()
}

// Since returns the time elapsed since a time.
func (c Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until returns the duration until a time.
func (c Clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// A role that waits for another one periodically checks whether the log has lost its own records, or has unread ones:
// first after MinPatience, then with the interval doubled each time, up to MaxPatience.
const (
	MinPatience = 30 * time.Second
	MaxPatience = 5 * time.Minute
)

// Patience returns the wait that follows a wait without a message.
func Patience(wait time.Duration) time.Duration { return min(2*wait, MaxPatience) }

// Pause waits for a duration, or until the context ends, and then returns its error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Numbers of p × k matrices of float64 for a stage on sparse rows.
const (
	// crossMoments is the number for the gradient and the weights: sums, records and messages.
	crossMoments = 6
	// solverMoments is the additional number of the solver: for conjugate gradients the minimum, its gradient, the previous
	// step and its product, for L-BFGS at least a pair of steps.
	solverMoments = 8
	// minSparseBytes is the memory that matrices may always take: messages in transit to a broker take as much.
	minSparseBytes = 64 << 20
)

// SparseBytes returns the memory of the matrices of a stage of sparse rows with p columns and k classes, in bytes. solves means that
// the process solves the stage.
func SparseBytes(p, k int64, solves bool) int64 {
	if solves {
		return 8 * (crossMoments + solverMoments) * p * k
	}
	return 8 * crossMoments * p * k
}

// CheckSparse returns an error if the matrices of a stage of sparse rows exceed the memory of a process in bytes, with the size of both.
// A memory of 0 has no limit.
func CheckSparse(memory, p, k int64, solves bool) error {
	if need := SparseBytes(p, k, solves); memory > 0 && need > max(memory, minSparseBytes) {
		return fmt.Errorf("the matrices of %s columns of sparse rows and %d classes take %s, but memory is %s: set memory to at least %d, "+
			"or a larger prepare.min_rows", humanize.Comma(p), k, humanize.IBytes(uint64(need)), humanize.IBytes(uint64(memory)), need)
	}
	return nil
}
