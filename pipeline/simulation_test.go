package pipeline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

var (
	schedules = flag.Uint64("schedules", 100, "simulate this number of schedules")
	first     = flag.Uint64("first", 1, "the seed of the first of them; the next has the next number")
	schedule  = flag.Uint64("schedule", 0, "simulate only the schedule with this seed, and log its faults and its weights")
)

// TestSimulation runs the production code of workers, solvers, submitters and runners against a log in memory (simLog), under random
// faults. A simulation has no sockets and one thread, and its clock is the number of its steps.
//
// An actor is one process: a coroutine that gives control to the scheduler at every call of the log. In each step the
// scheduler picks an actor and lets it run to its next call. A schedule is one such sequence of choices. Its seed decides
// every choice: how many actors there are, which runs they get, who is next, and which faults occur. The same seed always gives
// the same schedule, down to every byte that is written, so a failure can be replayed: the test prints the command. A
// replay logs each fault with its step, and which weights differ from those of a run without faults.
//
// The faults:
//   - an actor is killed, and started again without its memory;
//   - an actor pauses while the others go on;
//   - partitions are assigned again, and some actors hear of it late or never;
//   - the answer to a write is lost, so the client writes again; the first request is applied at once, or after what others write
//     in the next 600 steps;
//   - a write is applied only after its client was killed;
//   - a worker or a solver loses its membership, so that its role ends, and is started again as a new member;
//   - the log refuses a write, so that the role ends, and is started again;
//   - a batch of writes arrives in several requests, and unordered writes arrive in any order;
//   - runners that wait for more examples are stopped, and others go on to the end, some with another stage;
//   - a subscription reports that nothing came in time;
//   - compaction and retention remove messages while they are read;
//   - messages that were acknowledged are lost, and their offsets may be used again;
//   - transactions of other producers are aborted, so that offsets have no messages (examples of chains);
//   - examples are older than their retention, which changes, and the settings of topics are not told (aging);
//   - examples expire that each process makes again from their topic (topicExamples);
//   - a topic that two processes follow loses messages, or is made anew, while partitions are added to the examples (followed);
//   - operators list, describe, check, attach, verify and search, and in some scenarios pin and remove versions, cancel runs,
//     remove sources, forget rows and decide what was forgotten (operated);
//   - topics are made anew (residuals, statistics, weights), or get another partition (statistics, examples).
//
// The examples of the scenarios are messages of other producers, or a source: with messages that are repeated, that are of interrupted
// attempts, that have headers of their own, or that can't be used (simExamples). Plans are made by the production code too. If
// messages of a source are lost, its submitter ingests it again.
//
// What must hold after every write (checkWrite): a record has the same content as in a run without faults, whoever writes it
// and however often. A record is identified by run, kind, stage, visit, partition and parent. Weights depend on every record
// before them, so a span that was counted twice, or residuals that were read before they were sealed, change the next record. Visits have
// one record a share, whoever owns its partitions, and updates that their solvers visit have none.
//
// A run may start from the latest version. Then the weights of its version must be those of as many warm starts without faults, and
// nobody may remove the version that it starts from (noteWarm, prune).
//
// A scenario averages two members: the votes of the first come with the residuals of each stage of the second.
//
// Some scenarios make a chain of versions (simulateChain), with one or two runners, which make different plans of the same content.
// Whatever happens, the chain has all versions that it has without faults, in the same order, each once, with the same weights and reports.
// A source is sealed after the chain has passed its messages; each of its rows is learnt once. Rows are forgotten, or an update takes them
// away, and in the end no version is left that has learnt from them. Increments are joined, in one scenario 50 of them. Gaps in the offsets
// of the examples, and messages that say they were written next year, or do not say when, change nothing of that, whether the window is of
// increments or of a time. In one scenario the stream changes, which drops what came before, and the versions that predict test rows worse
// are withheld. If a partition is added that gets messages, or the stages change, the chain learns every row once, though its versions are
// others than without faults. Each row of a topic that is followed counts once (checkIngested), and each row of two files that two
// processes ingest meanwhile. Whatever operators do, the chain goes on, and no version is left that has learnt what they forgot.
//
// If the examples have changed, plans have other spans. All copies of their records must have the same content.
//
// What must hold of every report (checkReport): it has the rows that count, how many messages were passed over and why, and how many
// are in quarantine; and these are on the quarantine topic.
//
// A run may fail only if messages were lost after a submitter began to plan it, and the reason must be about the log (checkFailure).
// Once the faults are over, a run must succeed, whatever was lost before (checkRecovery).
//
// Whoever makes a version again, while others work or after that, gets its weights, or an error that says which examples are gone, which is
// so (checkVerified). A search beside other runs has the weights of runs of its jobs. Stages that are chosen are those that are chosen
// without faults.
//
// What must hold at the end (checkEnd): every run has ended, and the version of a
// run that is done can be read, before and after compaction.
func TestSimulation(t *testing.T) {
	long(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // almost the whole heap is garbage: collect it only when it is as large as this
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(simMemory))
	scenarios := simScenarios(t)
	if *schedule > 0 {
		replayed(t, scenarioOf(scenarios, *schedule), *schedule)
		return
	}
	var next atomic.Uint64
	var running sync.WaitGroup
	var mutex sync.Mutex
	steps, outcomes, happened, failed := 0, map[string]int{}, map[move]int{}, []uint64(nil)
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for n := next.Add(1); n <= *schedules; n = next.Add(1) {
				seed := *first + n - 1
				sc := scenarioOf(scenarios, seed)
				if err := sc.refer(); err != nil {
					t.Errorf("the scenario of schedule %d without faults: %v", seed, err)
					return
				}
				s := sc.simulate(seed, nil)
				again := s.log.history
				if s.violation != nil || seed%repeatEvery == 0 {
					again = sc.simulate(seed, nil).log.history
				}
				mutex.Lock()
				assert.True(t, again == s.log.history,
					"schedule %d has another history when it is simulated again: something but its seed decides it", seed)
				steps += s.steps
				for m, n := range s.log.moves {
					happened[m] += n
				}
				for _, outcome := range s.outcomes {
					outcomes[outcome]++
				}
				if s.violation != nil {
					if failed = append(failed, seed); len(failed) <= 5 {
						t.Errorf("schedule %d: %v\n\treplay it: go test ./pipeline -run '^TestSimulation$' -schedule %d -v", seed, s.violation, seed)
					}
				}
				mutex.Unlock()
			}
		})
	}
	running.Wait()
	t.Logf("%d schedules, %d steps, runs by outcome %v, %d schedules failed", *schedules, steps, outcomes, len(failed))
	if slices.Sort(failed); len(failed) > 0 {
		t.Logf("schedules that failed: %d", failed)
	}
	for _, m := range moves {
		t.Logf("%7d times %s", happened[m], m)
		assert.True(t, happened[m] != 0 || *schedules < 3000, "in no schedule %s", m)
	}
	assert.True(t, outcomes[schemas.Done] != 0 && (*schedules < 1000 || outcomes[schemas.Failed] != 0 && outcomes[schemas.Cancelled] != 0),
		"runs by outcome %v: expected runs that are done, and from 1000 schedules on also failed and cancelled ones", outcomes)
}

// simScenarios returns the scenarios: a schedule has the one that its seed says.
func simScenarios(t testing.TB) []*scenario {
	t.Helper()
	columns := func(l schemas.Link, passes int) schemas.Stage {
		s := rffStage(l, 0, passes)
		s.Features.Kind = "columns"
		return s
	}
	blocks := kindStage(stages.Gradient, link.Softmax)
	blocks.Features.Size = 4
	trees := treesStage(link.Softmax, 2)
	return []*scenario{
		newScenario(t, plainExamples(), 1<<20, columns(link.Softmax, 2), columns(link.Identity, 1)), // all blocks stay in memory
		newScenario(t, plainExamples(), 0, columns(link.Softmax, 1), columns(link.Softmax, 2)),      // each visit reads all messages again
		newScenario(t, plainExamples(), 100, columns(link.Calibrated, 2)),                           // each visit reads some messages again
		emptyScenario(t, plainExamples(), 100, columns(link.Softmax, 2), columns(link.Calibrated, 1)).withJob(func(j *topics.Job) {
			j.Group, j.Prepare = 2, schemas.Prepare{Scale: "standard", PCA: 1} // shares of two partitions
		}).withReference(),
		newScenario(t, ingestedExamples(false), 100, columns(link.Softmax, 1), columns(link.Identity, 1)),
		newScenario(t, ingestedExamples(true), 100, columns(link.Softmax, 1), columns(link.Identity, 1)),
		newChainScenario(t, chainExamples().inSolvers(), 100, chainOptions(), columns(link.Softmax, 2), columns(link.Identity, 1)),
		newChainScenario(t, chainExamples().forgetting(learntByAll).inSolvers(), 100, chainOptions(), columns(link.Softmax, 1)),
		newChainScenario(t, chainExamples().forgetting(learntByUpdates), 100, wideOptions(), columns(link.Identity, 1)),
		newChainScenario(t, chainExamples(), 100, joiningOptions(), columns(link.Softmax, 1)),
		newChainScenario(t, chainExamples().inSolvers(), 100, chainOptions(), columns(link.Softmax, 1)).losing(),
		newChainScenario(t, chainExamples(), 100, joiningOptions(), columns(link.Identity, 1)).losing(),
		newChainScenario(t, chainExamples().withHoles().inSolvers(), 100, timeOptions(), columns(link.Softmax, 1)),
		newChainScenario(t, chainExamples().withHoles(), 100, timeOptions(), columns(link.Identity, 1)).losing(),
		newChainScenario(t, manyExamples(25).inSolvers(), 100, manyOptions(), columns(link.Identity, 1)),
		newChainScenario(t, driftingExamples(), 100, gatedOptions(), columns(link.Identity, 1)),
		newChainScenario(t, driftingExamples().inSolvers(), 100, gatedOptions(), columns(link.Softmax, 1)),
		newChainScenario(t, chainExamples(), 100, chainOptions(), columns(link.Softmax, 1)).aging(2 * time.Hour),
		newChainScenario(t, topicExamples(24), 100, chainOptions(), columns(link.Softmax, 1)),
		newChainScenario(t, topicExamples(24).inSolvers(), 100, joiningOptions(), columns(link.Identity, 1)).operated(),
		newChainScenario(t, manyExamples(4), 100, chainOptions(), columns(link.Identity, 1)).followed(),
		newChainScenario(t, manyExamples(4).inSolvers(), 100, chainOptions(), columns(link.Identity, 1)).followed().later(),
		newChainScenario(t, manyExamples(4), 100, chainOptions(), columns(link.Softmax, 1)).followed().withFiles(t),
		newChainScenario(t, manyExamples(6), 1<<20, chainOptions(), columns(link.Softmax, 2)).followed().withFiles(t).losing().operated(),
		newChainScenario(t, chainExamples(), 100, joiningOptions(), columns(link.Identity, 1)).losing().operated(),
		newScenario(t, ingestedExamples(false), 100, columns(link.Softmax, 1)).operated().givingUp(),
		newChainScenario(t, chainExamples().inSolvers(), 100, chainOptions(), rffStage(link.Softmax, 48, 1), columns(link.Identity, 1)).losing(),
		newChainScenario(t, chainExamples().forgetting(learntByUpdates).inSolvers(), 1<<20, wideOptions(), rffStage(link.Identity, 48, 2)),
		emptyChainScenario(t, manyExamples(8), 100, manyOptions(), columns(link.Identity, 1)).joining(1500).withChain(),
		emptyChainScenario(t, chainExamples(), 100, chainOptions(), columns(link.Softmax, 1)).withJob(func(j *topics.Job) {
			j.Group = 2 // shares of two partitions
		}).withChain(),
		newChainScenario(t, lateClassExamples(), 1<<20, chainOptions(), columns(link.Softmax, 1)),
		emptyScenario(t, sparseExamples(), 1<<19, kindStage(stages.ClassCounts, link.Softmax), blocks, columns(link.Softmax, 2)).withReference(),
		emptyScenario(t, sparseExamples(), 100, blocks).withJob(func(j *topics.Job) {
			j.Prepare = schemas.Prepare{Scale: "unit", MinRows: 1, IDF: 1}
		}).withReference(),
		emptyScenario(t, severalExamples(), 100, columns(link.Logistic, 2)).withJob(func(j *topics.Job) {
			j.Examples.Labels, j.Prepare.Scale = layout.LabelsSeveral, "standard"
		}).withReference(),
		emptyScenario(t, numberExamples(), 100, columns(link.Identity, 1)).withJob(func(j *topics.Job) {
			j.Examples.Targets = []string{"x", "y"}
		}).withReference(),
		emptyScenario(t, missingExamples(), 100, rffStage(link.Softmax, 8, 2)).withJob(func(j *topics.Job) {
			j.Examples.Missing.Mode, j.Prepare = layout.MissingMean, schemas.Prepare{Scale: "standard", PCA: 2}
		}).withReference(),
		emptyScenario(t, imageExamples(), 1<<20, rffStage(link.Softmax, 8, 2)).withJob(func(j *topics.Job) {
			j.Examples.Image, j.Examples.Augment = []string{"2", "2", "1"}, schemas.Augment{Mirror: true, Shift: 1}
		}).withReference(),
		emptyScenario(t, missingExamples(), 100, trees, columns(link.Softmax, 1), trees).withJob(func(j *topics.Job) {
			j.Examples.Missing.Mode = layout.MissingMean
		}).withReference(),
		newChainScenario(t, chainExamples(), 100, chainOptions(), trees, columns(link.Softmax, 1)),
		newChainScenario(t, sparseChainExamples().inSolvers(), 100, chainOptions(), kindStage(stages.ClassCounts, link.Softmax),
			columns(link.Softmax, 2)),
		newChainScenario(t, sparseChainExamples(), 100, joiningOptions(), columns(link.Logistic, 2)).losing(),
		newChainScenario(t, chainExamples(), 100, chainOptions(), columns(link.Softmax, 1)).losing().executing(),
		newChainScenario(t, chainExamples().inSolvers(), 100, joiningOptions(), columns(link.Identity, 1)).losing().executing(),
		emptyScenario(t, ingestedExamples(false), 100, columns(link.Softmax, 1), columns(link.Identity, 1)).withJob(func(j *topics.Job) {
			j.Average = 2
		}).withReference(),
		newScenario(t, plainExamples(), 100, columns(link.Softmax, 1), columns(link.Identity, 1)).executing(),
		emptyChainScenario(t, manyExamples(6).heldOut(0.3), 100, chainOptions(), ending(columns(link.Softmax, 1)),
			ending(columns(link.Identity, 1)), ending(columns(link.Softmax, 1))).choosing().withChain(),
		emptyScenario(t, sparseExamples(), 1<<19, columns(link.Softmax, 1)).withJob(func(j *topics.Job) {
			j.Untuned, j.Unlinked = true, true
		}).choosing().withReference(),
	}
}

// replay simulates one schedule, and logs its faults, the records of its weights topic and its outcome.
func replayed(t *testing.T, sc *scenario, seed uint64) {
	assert.NoError(t, sc.refer())
	s := sc.simulate(seed, t.Logf)
	for _, m := range s.log.topics[s.topics.Weights][0].messages {
		key, _ := keyOf(m.Message)
		got := s.content(m.Message)
		t.Logf("weights@%d: %v has content %s, as without faults: %v", m.Offset, key, got, got == s.reference[key])
	}
	t.Logf("%d steps, %d writes, outcomes %v, history %08x", s.steps, s.log.writes, s.outcomes, s.log.history)
	assert.True(t, s.violation == nil, "%v", s.violation)
}

// repeatEvery is after how many schedules one is simulated again: who makes each step, and every byte that is written, must be the same.
const repeatEvery = 23

// scenarioOf returns the scenario of a schedule.
func scenarioOf(scenarios []*scenario, seed uint64) *scenario {
	return scenarios[seed%uint64(len(scenarios))]
}

// simMemory is how many bytes TestSimulation may have. However many schedules it simulates, what is not garbage takes less than a quarter.
const simMemory = 2 << 30

// simName is the name of the pipeline.
const simName = "sim"

// scenario is a job, its examples, and what its runs write when there are no faults. Many simulations share one.
type scenario struct {
	*simExamples
	blas        *kernel.BLAS
	job         topics.Job
	reference   map[recordKey]wire.Digest // content of each record of a run without faults
	refer       func() error              // makes the reference, once
	planned     map[string]bool           // the runs of the reference, without warm starts
	versionsOf  map[string]wire.Digest    // the weights of versions without faults, by the lineages of their runs
	reportsOf   map[string]string         // what reports say of stages without faults, by the same
	chain       *simChain                 // nil: runs are submitted one by one
	giveUp      time.Duration             // after which runs that nobody takes up end; 0: they wait
	operators   bool                      // give commands: see operated
	retention   time.Duration             // of examples: see aging; 0: they stay
	windowBytes int64                     // see joining; 0: there is room
	followers   bool                      // a topic is followed: see followed
	labelsLater bool                      // the labels of its rows come later: see later
	csv         []string                  // files that are ingested: see withFiles
	executes    bool                      // runners and submitters execute the runs: see executing
	chooses     bool                      // stages are chosen, or how sparse rows are prepared: see choosing
}

// emptyScenario returns a scenario without a reference. bytes is how much memory a worker may keep rows and blocks in.
func emptyScenario(t testing.TB, examples *simExamples, bytes int64, list ...schemas.Stage) *scenario {
	t.Helper()
	blas := assert.Must(kernel.Open("gonum"))(t)
	sc := &scenario{simExamples: examples, blas: blas, reference: map[recordKey]wire.Digest{}, planned: map[string]bool{},
		versionsOf: map[string]wire.Digest{}, reportsOf: map[string]string{}}
	sc.job = topics.Job{
		Name: simName, Stages: list, Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 1, Memory: bytes,
		Group: 1, Prepare: schemas.Prepare{Scale: "none"},
	}
	sc.job.Examples = ingest.Defaults()
	sc.job.Examples.Partitions, sc.job.Examples.Holdout = simPartitions, examples.holdout
	if examples.files {
		sc.job.Examples.Train = examples.seal.Files
	}
	return sc
}

// newScenario returns a scenario with a reference: see withReference.
func newScenario(t testing.TB, examples *simExamples, bytes int64, list ...schemas.Stage) *scenario {
	t.Helper()
	return emptyScenario(t, examples, bytes, list...).withReference()
}

// withReference has the scenario run its job without faults.
func (sc *scenario) withReference() *scenario {
	return sc.referringTo(func(sc *scenario) error {
		// With two workers, each share has another owner: some of the same runs write the same.
		return errors.Join(sc.learnFrom(1, simSubmissions, simWarmStarts), sc.learnFrom(simPartitions, 1, 2))
	})
}

// referringTo has the first schedule of the scenario make its reference. It is that of the scenario as it is now: faults are added later.
func (sc *scenario) referringTo(learn func(*scenario) error) *scenario {
	plain := *sc
	sc.refer = sync.OnceValue(func() error { return learn(&plain) })
	return sc
}

// learnFrom runs the job of a scenario without faults, with one partition in so many owned by each worker, and so many submissions and warm
// starts of either seed.
func (sc *scenario) learnFrom(workers, submissions, warmStarts int) error {
	s := sc.withoutFaults()
	s.startRoles(workers, 1)
	// A run's id depends on the text that its submission draws, which in a simulation is a number. So the reference needs as many runs
	// of either seed as a schedule can submit. One process submits all of them, as it decodes each plan once.
	s.start("submitter", func() {}, func(a *actor) error {
		p := s.pipeline(a)
		execute, _ := s.execution(a, p, 0)
		submit := func(seed int, warm bool) {
			err := s.submitAndCheck(p, execute, uint64(seed), false, warm)
			s.check(err == nil, "a run has no report: %v", err)
		}
		for n := range 2 * submissions {
			submit(1+n/submissions, false)
		}
		for n := range 2 * warmStarts {
			submit(2-n/warmStarts, n != warmStarts)
		}
		return nil
	}).awaited = true
	s.awaitRuns()
	s.stopActors()
	s.checkEnd()
	return s.violation
}

// withoutFaults returns a simulation without faults: what is written in it is the reference of the scenario.
func (sc *scenario) withoutFaults() *simulation {
	s := sc.simulation(0)
	s.random = nil
	s.log.onWrite = func(topic string, m wire.Message) {
		if !isBeside(topic) {
			s.learn(m)
			s.checkWrite(topic, m)
		}
	}
	return s
}

// simulation is one schedule under way: the log, the actors, and what is known of the runs.
type simulation struct {
	*scenario
	topics    protocol.Topics
	log       *simLog
	random    *rand.Rand // makes all choices; nil: the first choice always, and no faults
	steps     int
	turns     int   // how often patience has ended, without faults
	violation error // the first invariant that did not hold

	actors         []*actor
	ready, waiting []*actor         // buffers of step
	workers        []*simMembership // by worker
	solvers        []*simMembership // by solver
	runners        []*simMembership // by runner

	faultsLeft  int
	faultRate   float64        // the probability of a fault in a step
	dataLost    bool           // a message that a run may need was lost or expired
	oneClass    bool           // what is left of the examples has one class: no run can use it
	historyLost bool           // messages of plans, versions or weights were lost, so checkEnd can't compare
	lostAt      int            // the step
	begun       map[string]int // the steps in which submitters began to plan runs
	// offsets of examples were used again: a run may survey others than those that its plan was made for
	examplesReused  bool
	examplesChanged bool                      // the examples are not those of the scenario any more
	warm            map[string]string         // the runs of the versions that runs start from
	lineages        map[string]string         // of runs: see noteWarm
	chained         map[string]string         // the kinds of the runs of a chain
	numbers         map[string]int            // in the chain, of these runs
	turnOf          map[string]string         // the run that counts, by its parent and attempt
	solved          map[string]bool           // the updates that their solvers visit
	made            []string                  // runs of the chain that are done, in the order of their ends
	others          map[recordKey]wire.Digest // the first content of each record of runs of other examples
	quarantined     map[string]bool           // keys that were written to the quarantine topic
	chunk           int                       // how many bytes a message may have; 1 makes a message of each tensor, 0 is the brokers' limit
	stores          bool                      // solvers keep in memory what the next run of a chain goes on from
	texts           int                       // that fresh has returned
	serves          bool                      // runners do not stop at the end of the examples, but wait for more
	differs         bool                      // the chain has other versions than without faults, though nothing was lost
	otherFeatures   bool                      // of the first of them
	restaged        bool                      // runners have other stages after they were stopped
	// rows that runs of a chain have learnt, held out or left out as no class is theirs, by their reports
	learnt      map[string]int64
	added       map[string]coverage.Spans // by run of a chain: see schemas.Plan.Added
	fed         int                       // messages that feed has written
	times       int                       // that nextTime has returned
	offeredRows int64                     // of the window of the version of a chain that was offered last
	lessIsSaid  bool                      // that the window has lost rows since
	drawn       map[uint64]int            // submissions by seed

	keepRuns int // see protocol.Client

	runs        []string               // ids of submitted runs, each once
	ends        map[string]string      // the states in which runs ended, by id
	versions    []schemas.Place        // that were made and not removed
	places      map[schemas.Place]bool // where any end says that a version is
	leaving     map[string]bool        // runs of whose versions a manifest was removed
	removed     map[string]bool        // runs whose versions were removed
	removedRuns map[int]string         // these runs by the numbers of their versions
	outcomes    []string               // what submitters saw: the states of their runs' ends

	settings  map[string]map[string]string // of topics
	ordered   bool                         // operators have changed something
	ended     bool                         // the topic that is followed gets nothing more
	onChanged string                       // what followers do if it has changed
	read      int64                        // rows that the topic had that is followed
}

// simulation returns a simulation whose topics have the examples, and nothing else.
func (sc *scenario) simulation(seed uint64) *simulation {
	s := &simulation{
		scenario: sc, settings: simSettings(sc.job), topics: protocol.TopicsOf(simName), random: rand.New(rand.NewPCG(seed, 7)),
		log:   &simLog{topics: map[string][]*simPartition{}, moves: map[move]int{}, trace: func(string, ...any) {}},
		drawn: map[uint64]int{}, learnt: map[string]int64{}, added: map[string]coverage.Spans{}, ends: map[string]string{}, removed: map[string]bool{}, leaving: map[string]bool{},
		removedRuns: map[int]string{},
		warm:        map[string]string{}, lineages: map[string]string{}, chained: map[string]string{}, numbers: map[string]int{},
		turnOf: map[string]string{}, solved: map[string]bool{}, begun: map[string]int{}, others: map[recordKey]wire.Digest{}, quarantined: map[string]bool{},
		places: map[schemas.Place]bool{},
	}
	for range simPartitions {
		s.log.addPartition(s.topics.Examples, 0)
		s.log.addPartition(s.topics.Residuals, s.random.Int64N(3)) // what was there before is gone
	}
	for _, topic := range []string{s.topics.Statistics, s.topics.Statistics, s.topics.Weights, s.topics.Versions, s.topics.State,
		s.topics.Plans, s.topics.Forget, s.topics.Quarantine} {
		s.log.addPartition(topic, s.random.Int64N(3))
	}
	s.addExamples()
	if sc.fromTopic > 0 {
		s.ingestTopic()
	}
	if sc.seal != nil {
		s.log.topics[s.topics.Plans][0].append(sc.seal.Message())
	}
	s.log.onWrite = s.checkWrite
	return s
}

// simulate simulates the schedule of a seed to its end: one to three workers, one or two solvers, and one or two rounds of runs with up to
// nine faults each, besides those of single calls (actorLog). trace, which may be nil, gets a line for each of the nine.
func (sc *scenario) simulate(seed uint64, trace func(format string, values ...any)) *simulation {
	s := sc.simulation(seed)
	if trace != nil {
		s.log.trace = func(format string, values ...any) { trace("step %d: "+format, append([]any{s.steps}, values...)...) }
	}
	s.chunk = int(seed / 5 % 4 / 3)
	s.keepRuns = 1 + s.random.IntN(8)
	s.faultRate = []float64{0.01, 0.01, 0.002, 0.0005}[s.random.IntN(4)] // early ones, and some when there are versions
	if workers, solvers := 1+s.random.IntN(3), 1+s.random.IntN(2); !s.executes {
		s.startRoles(workers, solvers)
	}
	if sc.chain != nil {
		s.stores = s.random.IntN(2) == 0
		s.simulateChain()
	}
	for rounds := 1 + s.random.IntN(4)/3; rounds > 0 && sc.chain == nil; rounds-- {
		s.faultsLeft = s.random.IntN(10)
		for submitters := 1 + s.random.IntN(3)/2; submitters > 0; submitters-- {
			s.submit(uint64(1+s.random.IntN(3)/2), s.random.IntN(3) == 0, s.random.IntN(3) == 0).paused = s.random.IntN(300)
		}
		s.awaitRuns()
	}
	switch {
	case !s.dataLost || s.violation != nil:
	case s.chain != nil:
		s.checkChainRecovery()
	default:
		s.checkRecovery()
	}
	if s.violation == nil && (s.random.IntN(8) == 0 || s.dataLost && s.random.IntN(2) == 0) {
		s.verifyAfter()
	}
	s.stopActors()
	if s.log.deliver(math.MaxInt); s.violation == nil {
		s.checkEnd()
	}
	return s
}

// simSubmissions is more submissions of a seed than a schedule has.
const simSubmissions = 16

// simWarmStarts is more warm starts, one after the other, than a schedule has.
const simWarmStarts = 8

// maxSteps is when a simulation counts as one that never ends. The longest ones take about a tenth of it.
const maxSteps = 100_000

// awaitRuns steps until every submitter has seen the end of its run. Once the last fault has occurred, everybody hears who owns
// what, and so the runs must end.
func (s *simulation) awaitRuns() {
	if s.faultsLeft == 0 {
		s.assignAll()
	}
	for s.violation == nil && s.submitting() {
		if s.goOn(); s.steps > maxSteps {
			s.fail("a run has not ended after %d steps", maxSteps)
			return
		}
	}
}

// goOn makes one step, before which a fault may happen.
func (s *simulation) goOn() {
	s.log.step = s.steps
	s.log.deliver(s.steps)
	s.steps++
	if s.faultsLeft > 0 && s.random.Float64() < s.faultRate {
		s.faultsLeft--
		s.injectFault()
		if s.faultsLeft == 0 {
			s.assignAll()
		}
	}
	s.age()
	s.step()
}

// step lets one actor run to its next call of the log.
func (s *simulation) step() {
	ready, waiting := s.ready[:0], s.waiting[:0]
	for _, a := range s.actors {
		switch {
		case a.ended:
		case a.paused > 0:
			a.paused--
		case a.waits != nil && a.waits.idle():
			waiting = append(waiting, a)
		default:
			ready = append(ready, a)
		}
	}
	s.ready, s.waiting = ready, waiting // keep the buffers
	if len(ready) == 0 {
		ready = waiting // nobody else can run: time passes until one of these has waited long enough
	}
	if len(ready) == 0 {
		return // all are paused
	}
	n := s.choose(len(ready))
	if s.random == nil && len(ready) == len(waiting) {
		s.turns++
		n = s.turns % len(ready) // patience ends for one after the other
	}
	a := ready[n]
	s.log.record(a.name)
	s.log.current = a
	a.resume()
	if a.ended {
		s.remove(a)
		s.log.trace("%s ended: %v", a.name, a.err)
		s.restart(a)
	}
}

// choose returns a number below n: at random, or without faults 0.
func (s *simulation) choose(n int) int {
	if s.random == nil {
		return 0
	}
	return s.random.IntN(n)
}

// fail notes that an invariant does not hold. Only the first counts.
func (s *simulation) fail(format string, values ...any) {
	if s.violation == nil {
		s.violation = fmt.Errorf(format, values...)
	}
}

// check notes a violation, with the format and its values, unless a condition holds.
func (s *simulation) check(holds bool, format string, values ...any) {
	if !holds {
		s.fail(format, values...)
	}
}

// actor is a process of a simulation: a coroutine that gives control to the scheduler at each call of the log.
type actor struct {
	name       string
	resume     func() (struct{}, bool)
	yield      func(struct{}) bool
	unattended bool                     // there is no scheduler: calls of the log return at once
	waits      interface{ idle() bool } // for what it waits; nil: it can run
	process    *actor                   // whose thread it is; nil: it is a process
	paused     int                      // steps for which it is not scheduled
	killed     bool
	ended      bool
	err        error  // why it ended
	restart    func() // starts it again
	submitter  bool
	awaited    bool // the simulation does not end before it
	follower   bool
}

// errKilled is what every call of the log returns to an actor that has been killed.
var errKilled = errors.New("killed")

// giveWay gives control to the scheduler, and returns when the actor is scheduled again.
func (a *actor) giveWay() error {
	if a.unattended {
		return nil
	}
	if a.killed || a.yield == nil || !a.yield(struct{}{}) || a.killed {
		a.killed = true
		return errKilled
	}
	return nil
}

// unattended returns an actor for a test that calls the log itself.
func unattended() *actor { return &actor{unattended: true} }

// growStack makes a coroutine's stack as deep as a role needs it. Otherwise the runtime copies the stack each time that it
// doubles, and a schedule starts dozens of actors.
//
//go:noinline
func growStack() byte {
	var stack [24 << 10]byte
	return stack[len(os.Args)]
}

// start adds an actor that does something, and ends.
func (s *simulation) start(name string, restart func(), do func(a *actor) error) *actor {
	return s.add(&actor{name: name, restart: restart}, do)
}

// add makes a coroutine of an actor.
func (s *simulation) add(a *actor, do func(a *actor) error) *actor {
	a.resume, _ = iter.Pull(func(yield func(struct{}) bool) { // stopActors lets each actor return from its role, and stops none
		a.yield = yield
		growStack()
		a.err = do(a)
		a.ended = true
	})
	s.actors = append(s.actors, a)
	return a
}

func (s *simulation) remove(a *actor) {
	s.actors = slices.DeleteFunc(s.actors, func(other *actor) bool { return other == a })
}

// restart starts an ended actor again, as a supervisor does. A submitter starts again only if it was killed, a write was refused, or its
// membership was lost.
func (s *simulation) restart(a *actor) {
	if !a.submitter || a.killed || errors.Is(a.err, errKilled) || errors.Is(a.err, errRefused) || errors.Is(a.err, errLost) {
		a.restart()
	}
}

// stopActors kills all actors, and waits until they have returned.
func (s *simulation) stopActors() {
	for _, a := range slices.Clone(s.actors) {
		for a.killed, a.waits = true, nil; !a.ended; {
			s.log.current = a
			a.resume()
		}
	}
}

// pipeline returns the pipeline as an actor sees it.
func (s *simulation) pipeline(a *actor) *topics.Pipeline {
	log := actorLog{s.log, a, s.random}
	client := (&protocol.Client{Log: log, Topics: s.topics, Memory: memory.DefaultAllocator, Chunk: s.chunk, Fresh: s.fresh, Clock: s.now,
		KeepRuns: s.keepRuns, Distribute: !s.local}).Beside(simName) // with the memory of a process
	client.GiveUp = s.giveUp
	return s.remaking(&topics.Pipeline{Admin: simAdmin{log, s.settings}, Client: client})
}

// fresh returns a text that the simulation has not had before.
func (s *simulation) fresh() string {
	s.texts++
	return fmt.Sprintf("%08d", s.texts)
}

// simKeep is how many versions a simulation keeps.
const simKeep = 2

var simArithmetic = schemas.Arithmetic{Numerics: "simulation"}

// startRoles starts workers and solvers, and assigns the partitions to them.
func (s *simulation) startRoles(workers, solvers int) {
	for range workers {
		s.workers = append(s.workers, newSimMembership())
	}
	for range solvers {
		s.solvers = append(s.solvers, newSimMembership())
	}
	for i := range s.workers {
		s.startWorker(i)
	}
	for i := range s.solvers {
		s.startSolver(i)
	}
	s.assignAll()
}

func (s *simulation) startWorker(i int) {
	s.start(fmt.Sprint("worker ", i), func() { s.startWorker(i) }, func(a *actor) error {
		p, cache := s.pipeline(a), visit.NewCache(s.job.Memory)
		return dispatch.Serve(context.Background(), p, simArithmetic, nil, func() dispatch.Member {
			return s.join(a, s.workers, i)
		}, func(ctx context.Context, o protocol.Owner, plan *schemas.Plan) error {
			return worker.New(p.Client, s.blas, plan, o, worker.Options{Cache: cache, Executor: sequential{}}, nil).Work(ctx)
		})
	})
}

func (s *simulation) startSolver(i int) {
	s.start(fmt.Sprint("solver ", i), func() { s.startSolver(i) }, func(a *actor) error {
		p, cache := s.pipeline(a), visit.NewCache(s.job.Memory)
		if s.stores {
			p.Sums = &solver.Store{}
		}
		return dispatch.Serve(context.Background(), p, simArithmetic, nil, func() dispatch.Member {
			return s.join(a, s.solvers, i)
		}, func(ctx context.Context, o protocol.Owner, plan *schemas.Plan) error {
			local := worker.Options{Cache: cache, Executor: sequential{}}
			if err := dispatch.SolveWhenOwner(ctx, p, s.blas, local, o, plan, nil); err != nil || s.random == nil {
				return err
			}
			return s.prune(ctx, p)
		})
	})
}

// submit starts a submitter: it submits a run of the job with a seed, and follows the run to its end. If warm, the run starts from the
// latest version.
func (s *simulation) submit(seed uint64, supersede, warm bool) *actor {
	if s.executes {
		s.workers, s.solvers = append(s.workers, newSimMembership()), append(s.solvers, newSimMembership())
	}
	return s.startSubmitter(len(s.workers)-1, seed, supersede, warm)
}

func (s *simulation) startSubmitter(member int, seed uint64, supersede, warm bool) *actor {
	a := s.start("submitter", func() { s.startSubmitter(member, seed, supersede, warm) }, func(a *actor) error {
		p := s.pipeline(a)
		execute, leave := s.execution(a, p, member)
		defer leave()
		return s.submitAndCheck(p, execute, seed, supersede, warm)
	})
	a.submitter = true
	return a
}

// submitAndCheck submits a run, executes it to its end, and checks its report.
func (s *simulation) submitAndCheck(p *topics.Pipeline, execute execution, seed uint64, supersede, warm bool) error {
	report, id, err := s.submitAndExecute(p, execute, seed, supersede, warm)
	if err == nil {
		s.checkReport(id, report)
	}
	var end *dispatch.RunError
	switch {
	case err == nil:
		s.outcomes = append(s.outcomes, schemas.Done)
		s.check(s.ends[id] == schemas.Done || s.historyLost, "a submitter has the report of run %s, which has ended as %q", id, s.ends[id])
	case errors.As(err, &end):
		s.outcomes = append(s.outcomes, end.State)
		if end.State == schemas.Failed {
			s.checkFailure(end)
		}
	}
	return err
}

func (s *simulation) submitAndExecute(p *topics.Pipeline, execute execution, seed uint64, supersede, warm bool) (*schemas.Report, string, error) {
	ctx, began := context.Background(), s.steps
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, "", err
	}
	job, seals := s.job, []schemas.SourceSeal(nil)
	job.Seed = seed
	if warm {
		job.Warm = s.warmStart(ctx, p, seed)
	}
	if s.files {
		seal, err := s.sealed(ctx, p, l)
		if err != nil {
			return nil, "", err
		}
		seals = append(seals, *seal)
	}
	if s.chooses {
		s.log.happen(choosing, "it is chosen how sparse rows are prepared")
		if job, err = replay.Resolve(ctx, p, s.process(actorOf(p)), job, &source.Ingested{}, nil); err != nil {
			return nil, "", err
		}
	}
	plan, err := dispatch.Plan(ctx, p, job, simArithmetic, seals, l, topics.ExamplesRetention{})
	if err != nil {
		return nil, "", err
	}
	s.drawn[seed]++
	plan.Submission = strconv.Itoa(s.drawn[seed])
	if _, known := s.begun[plan.Run()]; !known {
		s.begun[plan.Run()] = began
	}
	if plan, l, err = dispatch.Enqueue(ctx, p, plan, l, supersede, nil); err != nil {
		return nil, "", err
	}
	id := plan.Run()
	report, err := execute(ctx, plan, l)
	return report, id, err
}

// submitting reports whether a submitter still waits for the end of its run, or a version is made again.
func (s *simulation) submitting() bool {
	return slices.ContainsFunc(s.actors, func(a *actor) bool { return (a.submitter || a.awaited) && !a.ended })
}

// sequential is the executor of workers of a simulation, which schedules every call of the log itself: it takes one step after the other
// in the goroutine of the actor.
type sequential struct{}

// Run takes one segment after the other, and waits for each write.
func (sequential) Run(ctx context.Context, s *visit.Scan) error {
	process := s.Processor()
	for _, of := range s.Shares {
		for l, err := range s.Loads(ctx, of, func() error { return nil }) {
			if err != nil {
				return err
			}
			outcome, err := process(ctx, l)
			if err != nil {
				return err
			}
			write, err := s.Collect(l, outcome)
			if err == nil && write != nil {
				err = write(ctx)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// threads are what a process waits for.
type threads []*actor

// idle reports whether all go on.
func (t threads) idle() bool { return !slices.ContainsFunc(t, func(a *actor) bool { return a.ended }) }

// together runs the parts of a process in threads of it, and returns when all have ended. If the process is killed, or a part has an error,
// the other threads are killed.
func (s *simulation) together(process *actor, parts []func() error) (err error) {
	var running threads
	for n, part := range parts {
		running = append(running, s.startThread(process, fmt.Sprintf("%s, thread %d", process.name, n), part))
	}
	for len(running) > 0 {
		process.waits = running
		killed := process.giveWay()
		process.waits = nil
		for _, t := range running {
			if t.ended && err == nil {
				err = t.err
			}
		}
		if killed != nil {
			err = killed
		}
		for _, t := range running {
			for err != nil && !t.ended {
				t.killed, t.waits, s.log.current = true, nil, t
				t.resume()
			}
			if t.ended {
				s.remove(t)
			}
		}
		s.log.current = process
		running = slices.DeleteFunc(running, func(t *actor) bool { return t.ended })
	}
	return err
}

// startThread adds a thread of a process.
func (s *simulation) startThread(process *actor, name string, do func() error) *actor {
	return s.add(&actor{name: name, process: process, restart: func() {}}, func(*actor) error { return do() })
}

// process returns what an actor works on runs with: its roles are threads.
func (s *simulation) process(a *actor) dispatch.Process {
	return dispatch.Process{BLAS: s.blas, Arithmetic: simArithmetic, Executor: sequential{}, Together: func(parts ...func()) {
		var all []func() error
		for _, part := range parts {
			all = append(all, func() error { part(); return nil })
		}
		_ = s.together(a, all) // who is killed learns that from its next call of the log
	}}
}

// request is a write that is on its way to the log, while its client has given it up. It arrives in a later step.
type request struct {
	topic     string
	partition int
	messages  []wire.Message
	arrives   int // the step
}

// maxDelay is for how many steps a request may be under way.
const maxDelay = 600

// delay lets a request arrive later. It was sent for the first time in the given step.
func (l actorLog) delay(topic string, partition, sent int, messages []wire.Message) {
	arrives := l.step + 1 + l.random.IntN(max(1, sent+maxDelay-l.step))
	l.delayed = append(l.delayed, request{topic, partition, messages, arrives})
}

// deliver applies the requests that arrive until a step. They come after what others have written meanwhile.
func (l *simLog) deliver(until int) {
	for i := 0; i < len(l.delayed); {
		r := l.delayed[i]
		if r.arrives > until {
			i++
			continue
		}
		l.delayed = slices.Delete(l.delayed, i, i+1)
		if r.partition >= len(l.topics[r.topic]) {
			continue // the topic is deleted
		}
		l.happen(lateRequest, "%d messages for %s[%d] arrive late", len(r.messages), r.topic, r.partition)
		l.apply(r.topic, r.partition, r.messages)
	}
}

// apply writes the messages of a request, and returns the offset of the first.
func (l *simLog) apply(topic string, partition int, messages []wire.Message) (first int64) {
	for i, m := range messages {
		if offset := l.write(topic, partition, m); i == 0 {
			first = offset
		}
	}
	return first
}

// answerLost reports whether the answer to a write is lost. Half of the time the actor then pauses for as long as a request
// may take, while the others go on.
func (l actorLog) answerLost() bool {
	if !l.chance(0.05) {
		return false
	}
	l.count(lostAnswer)
	if l.chance(0.5) {
		l.self().paused = l.random.IntN(maxDelay)
	}
	return true
}

// errRefused is why the log refuses a write.
var errRefused = errors.New("this process may not write")

// Append writes the messages in one or more requests. A request whose answer is lost is written again; it may itself arrive before
// that, or much later. If the actor is killed, its request may still arrive. A refused request never does.
func (l actorLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (base int64, err error) {
	for base = -1; len(messages) > 0; {
		n := len(messages)
		if l.chance(0.3) {
			n = 1 + l.random.IntN(n)
		}
		var first int64
		sent := l.step
		for again := true; again; {
			if err := l.giveWay(ctx); err != nil {
				if l.chance(0.3) {
					l.delay(topic, partition, sent, messages[:n])
				}
				return base, err
			}
			if l.chance(0.002) {
				l.happen(refusal, "a write of %s to %s[%d] is refused", l.name, topic, partition)
				return base, &kafkalog.AccessError{Err: errRefused, Check: "the ACLs"}
			}
			if again = l.answerLost(); again && l.chance(0.5) {
				l.delay(topic, partition, sent, messages[:n])
				continue
			}
			first = l.apply(topic, partition, messages[:n])
		}
		if base < 0 {
			base = first
		}
		messages = messages[n:]
	}
	return base, l.giveWay(ctx)
}

// Scatter writes the messages in random order, and returns the offsets of those that were given.
func (l actorLog) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) ([]int64, error) {
	order, offsets := make([]int, len(messages)), make([]int64, len(messages))
	for i := range order {
		order[i] = i
	}
	if l.random != nil {
		l.random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	for _, i := range order {
		var err error
		if offsets[i], err = l.Append(ctx, topic, partition, messages[i]); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// simMembership is an actor's membership of a consumer group: the partitions that it believes it owns.
type simMembership struct {
	owned   []int
	changed chan struct{}
	err     error
	away    bool // the actor has left the group
}

func newSimMembership() *simMembership { return &simMembership{changed: make(chan struct{}, 1)} }

func (m *simMembership) Owned() []int                      { return m.owned }
func (m *simMembership) Changed() <-chan struct{}          { return m.changed }
func (m *simMembership) Commit(map[int]int64, func(error)) {}
func (m *simMembership) Err() error                        { return m.err }

func (m *simMembership) assign(partitions ...int) {
	m.owned = partitions
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// errLost is why a membership has ended.
var errLost = errors.New("the group has another member of this name")

// lose ends a membership.
func (m *simMembership) lose() {
	m.err = errLost
	m.assign()
}

// simMember is a membership that its actor can leave.
type simMember struct {
	*simMembership
	leave func()
}

// Leave makes the group assign all partitions to the others.
func (m simMember) Leave() error {
	m.leave()
	return nil
}

// join returns the membership of an actor, given those of its group and its number. If it was lost or left, it is a new one, for which
// the group assigns all partitions again. A killed process does not leave: it is back before the group has missed it.
func (s *simulation) join(a *actor, group []*simMembership, i int) dispatch.Member {
	if group[i].err != nil || group[i].away {
		group[i] = newSimMembership()
		s.assignAll()
	}
	m := group[i]
	return simMember{m, func() {
		if !a.killed && m.err == nil {
			m.away = true
			m.assign()
			s.assignAll()
		}
	}}
}

// assignAll assigns each partition to one worker and the plans topic to one solver, and notifies all of them.
func (s *simulation) assignAll() { s.reassign(func() bool { return true }) }

// reassign draws who owns what. An actor that is not notified keeps what it had, so a partition may have two owners for a while, or none.
func (s *simulation) reassign(notified func() bool) {
	owned := make([][]int, len(s.workers))
	if present := s.present(s.workers); len(present) > 0 {
		for p := range s.log.topics[s.topics.Examples] {
			i := present[s.choose(len(present))]
			if s.random == nil {
				i = present[p%len(present)]
			}
			owned[i] = append(owned[i], p)
		}
	}
	for i, m := range s.workers {
		if notified() {
			m.assign(owned[i]...)
		}
	}
	for _, group := range [][]*simMembership{s.solvers, s.runners} {
		s.activate(group, notified)
	}
}

// activate draws which member of a group is the active one: it owns the plans topic.
func (s *simulation) activate(group []*simMembership, notified func() bool) {
	active := -1
	if present := s.present(group); len(present) > 0 {
		active = present[s.choose(len(present))]
	}
	for i, m := range group {
		if !notified() {
			continue
		}
		if i == active {
			m.assign(0)
		} else {
			m.assign()
		}
	}
}

// present returns the numbers of the members that have neither left their group nor been expelled from it.
func (s *simulation) present(group []*simMembership) (numbers []int) {
	for i, m := range group {
		if !m.away && m.err == nil {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// simLog is a log in memory. It has no clock: the scheduler decides what happens next.
type simLog struct {
	topics  map[string][]*simPartition         // the partitions of each topic
	onWrite func(topic string, m wire.Message) // called before each write; may be nil
	writes  int
	step    int          // of the simulation
	current *actor       // which runs
	delayed []request    // that are still under way
	calm    bool         // the faults are over
	moves   map[move]int // how often each happened
	trace   func(format string, values ...any)
	history uint32 // a checksum of who made each step, and of what was written
}

// checksums are those of simLog.history.
var checksums = crc32.MakeTable(crc32.Castagnoli)

// record adds to the history.
func (l *simLog) record(texts ...string) {
	for _, text := range texts {
		l.history = crc32.Update(l.history, checksums, unsafe.Slice(unsafe.StringData(text), len(text)))
	}
}

// simPartition is a partition with offsets from first to end (excluded). Some offsets may have no message.
type simPartition struct {
	first, end int64
	messages   []protocol.Message
	written    map[int64]int // the step in which a message was written, by its offset
	reuses     bool          // offsets were used again
	reused     int64         // the lowest of them
}

// addPartition adds a partition to a topic. It has no messages yet, and its offsets begin at first.
func (l *simLog) addPartition(topic string, first int64) {
	l.topics[topic] = append(l.topics[topic], &simPartition{first: first, end: first})
}

// append adds a message, and returns its offset.
func (p *simPartition) append(m wire.Message) int64 {
	p.messages = append(p.messages, protocol.Message{Message: m, Offset: p.end})
	p.end++
	return p.end - 1
}

// index returns the index in messages of the first message with that offset or a later one.
func (p *simPartition) index(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.messages, offset, func(m protocol.Message, offset int64) int { return int(m.Offset - offset) })
	return i
}

// before returns the offset before which all messages were written up to a step.
func (p *simPartition) before(step int) int64 {
	at := p.first
	for _, m := range p.messages {
		if p.written[m.Offset] > step {
			break
		}
		at = m.Offset + 1
	}
	return at
}

// expire deletes the messages before an offset, as retention does.
func (p *simPartition) expire(before int64) {
	p.messages = slices.Clone(p.messages[p.index(before):])
	p.first = max(p.first, before)
}

// truncate deletes the messages from an offset on. Later messages get their offsets again, as after an unclean election of a leader.
func (p *simPartition) truncate(from int64) {
	p.messages = slices.Clone(p.messages[:p.index(from)])
	p.end = from
	p.reuse(from)
}

// remake deletes everything, as if the topic were deleted and created: offsets begin at 0 again.
func (p *simPartition) remake() {
	p.messages, p.first, p.end = nil, 0, 0
	p.reuse(0)
}

// reuse notes that offsets are used again.
func (p *simPartition) reuse(from int64) {
	if !p.reuses || from < p.reused {
		p.reuses, p.reused = true, from
	}
}

// gone reports whether a subscription that wants an offset gets the error that the offset is gone.
func (p *simPartition) gone(offset int64, compacted bool) bool {
	return offset < p.first && !compacted || offset > p.end
}

// compact keeps only the last message of each key among the messages before an offset, and no tombstones. Kafka's log cleaner does
// the same.
func (p *simPartition) compact(before int64) {
	last := map[string]int64{}
	for _, m := range p.messages {
		last[m.Key] = m.Offset
	}
	p.messages = slices.DeleteFunc(slices.Clone(p.messages), func(m protocol.Message) bool {
		return m.Offset < before && (last[m.Key] != m.Offset || m.Value == nil)
	})
}

func (l *simLog) write(topic string, partition int, m wire.Message) int64 {
	l.writes++
	l.record(topic, strconv.Itoa(partition), m.Key)
	for _, h := range m.Headers {
		l.record(h.Key, h.Value)
	}
	l.history = crc32.Update(l.history, checksums, m.Value)
	if l.onWrite != nil {
		l.onWrite(topic, m)
	}
	p := l.topics[topic][partition]
	if p.written == nil {
		p.written = map[int64]int{}
	}
	p.written[p.end] = l.step
	offset := p.append(m)
	if topic != protocol.TopicsOf(simName).Examples { // whose times are in the plans of a chain
		p.messages[len(p.messages)-1].Time = time.UnixMilli(int64(l.writes)) // no two messages have the same
	}
	return offset
}

// actorLog is the log as one actor sees it. Each call gives control to the scheduler, and may suffer a fault.
type actorLog struct {
	*simLog
	*actor
	random *rand.Rand // draws faults; nil: there are none
}

// self returns the actor that runs: the process, or one of its threads.
func (l actorLog) self() *actor {
	if l.current != nil && l.current.process == l.actor {
		return l.current
	}
	return l.actor
}

// giveWay gives control to the scheduler. It returns the error of the context if that has ended meanwhile.
func (l actorLog) giveWay(ctx context.Context) error {
	if err := l.self().giveWay(); err != nil {
		return err
	}
	return ctx.Err()
}

// chance reports whether a fault of that probability happens now.
func (l actorLog) chance(probability float64) bool {
	return l.random != nil && !l.calm && l.random.Float64() < probability
}

// choose returns a number below n: at random, or without faults 0.
func (l actorLog) choose(n int) int {
	if l.random == nil {
		return 0
	}
	return l.random.IntN(n)
}

// Bounds returns the first offset of a partition, and the one after its last.
func (l actorLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	if err := l.giveWay(ctx); err != nil {
		return 0, 0, err
	}
	p := l.topics[topic][partition]
	return p.first, p.end, nil
}

// Spans returns the offsets that each partition has.
func (l actorLog) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	if err := l.giveWay(ctx); err != nil {
		return nil, err
	}
	for n, p := range l.topics[topic] {
		spans = append(spans, coverage.Span{Partition: n, From: p.first, To: p.end})
	}
	return spans, nil
}

// oldAge is after how many steps a message may be called old. No request is under way for so long.
const oldAge = 1000

// Before returns offsets before which all messages are old.
func (l actorLog) Before(ctx context.Context, topic string, age time.Duration) (offsets []int64, err error) {
	if err := l.giveWay(ctx); err != nil {
		return nil, err
	}
	steps := oldAge
	if topic == protocol.TopicsOf(simName).Examples {
		steps = int(age / simStep)
	}
	for _, p := range l.topics[topic] {
		offsets = append(offsets, p.before(l.step-steps))
	}
	return offsets, nil
}

// DeleteBefore deletes messages, or does not.
func (l actorLog) DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error {
	if err := l.giveWay(ctx); err != nil {
		return err
	}
	p := l.topics[topic][partition]
	p.expire(min(offset, p.end))
	return nil
}

// Partitions returns how many partitions a topic has.
func (l actorLog) Partitions(ctx context.Context, topic string) (int, error) {
	return len(l.topics[topic]), l.giveWay(ctx)
}

// Range reads a range of offsets. Retention may delete messages while they are read.
func (l actorLog) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		for begun := false; ; begun = true {
			if !begun || l.chance(0.1) { // others may write and delete between two fetches
				if err := l.giveWay(ctx); err != nil {
					yield(protocol.Message{}, err)
					return
				}
			}
			p := l.topics[topic][partition]
			if from < to && (from < p.first || from >= p.end) {
				yield(protocol.Message{}, &kafkalog.DeletedError{Topic: topic, Partition: partition, Wanted: from, First: p.first, End: p.end})
				return
			}
			i := p.index(from)
			if i == len(p.messages) || p.messages[i].Offset >= to {
				return
			}
			from = p.messages[i].Offset + 1
			if !yield(p.messages[i], nil) {
				return
			}
		}
	}
}

// Subscribe follows partitions. Among those that have a message, it draws which one delivers next.
func (l actorLog) Subscribe(_ context.Context, wake <-chan struct{}, from ...protocol.Position) protocol.Subscription {
	s := &simSubscription{actorLog: l, wake: wake, positions: slices.Clone(from)}
	for _, position := range from {
		s.partitions = append(s.partitions, l.topics[position.Topic][position.Partition])
	}
	return s
}

// simSubscription follows partitions from their positions on.
type simSubscription struct {
	actorLog
	wake       <-chan struct{}
	positions  []protocol.Position
	partitions []*simPartition // of the positions
	ready      []int           // buffer of deliverable
	waits      context.Context // of who waits
}

// has reports whether position i has something to deliver: a message, or the error that its messages are deleted.
func (s *simSubscription) has(i int) bool {
	at, p := &s.positions[i], s.partitions[i]
	n := len(p.messages)
	return n > 0 && p.messages[n-1].Offset >= at.Offset || p.gone(at.Offset, at.Compacted)
}

// idle reports whether there is nothing to deliver, no value from wake, and whoever waits is not to stop.
func (s *simSubscription) idle() bool {
	if len(s.wake) > 0 || s.waits.Err() != nil {
		return false
	}
	for i := range s.positions {
		if s.has(i) {
			return false
		}
	}
	return true
}

// deliverable returns the indices of the positions that have something to deliver.
func (s *simSubscription) deliverable() []int {
	s.ready = s.ready[:0]
	for i := range s.positions {
		if s.has(i) {
			s.ready = append(s.ready, i)
		}
	}
	return s.ready
}

func (s *simSubscription) Next(ctx context.Context, _ time.Duration) (*protocol.Delivery, bool, error) {
	self := s.self()
	self.waits, s.waits = s, ctx
	err := s.giveWay(ctx)
	self.waits = nil
	if err != nil {
		return nil, false, err
	}
	ready := s.deliverable()
	if len(s.wake) > 0 && (len(ready) == 0 || s.choose(2) == 0) {
		<-s.wake
		return nil, false, nil
	}
	if len(ready) == 0 || s.random != nil && s.random.Float64() < 0.02 { // time passes, after the faults too
		return nil, true, nil
	}
	i := ready[s.choose(len(ready))]
	at, p := &s.positions[i], s.partitions[i]
	if p.gone(at.Offset, at.Compacted) {
		return nil, false, &kafkalog.DeletedError{Topic: at.Topic, Partition: at.Partition, Wanted: at.Offset, First: p.first, End: p.end}
	}
	message := p.messages[p.index(at.Offset)]
	at.Offset = message.Offset + 1
	return &protocol.Delivery{Topic: at.Topic, Partition: at.Partition, Message: message}, false, nil
}

func (s *simSubscription) Close() {}

// move is a kind of fault, or something else that must happen in a simulation. Its text says what happens.
type move string

const (
	kill         move = "an actor is killed"
	pause        move = "an actor pauses"
	reassignment move = "partitions are assigned again"
	expulsion    move = "a member is expelled from its group"
	compaction   move = "plans, versions and state are compacted"
	expiry       move = "messages expire"
	loss         move = "an acknowledged message is lost"
	quarantining move = "a message is put into quarantine"
	ingestion    move = "a source is ingested again"
	overtaking   move = "another run has the turn in a chain"
	lateSeal     move = "a source is sealed that a chain has passed over"
	forgetting   move = "rows are forgotten"
	joining      move = "a full run joins increments of a chain"
	warming      move = "a run starts from a version"
	truncation   move = "offsets are used again"
	remaking     move = "a topic is made anew"
	growth       move = "a topic gets another partition"
	abortion     move = "a transaction of examples is aborted"
	withholding  move = "a version is withheld"
	restarting   move = "an update drops what came before a change of the stream"
	spreading    move = "an added partition gets messages"
	stop         move = "a service that retrains is stopped"
	restaging    move = "the stages of a chain change"
	lostAnswer   move = "the answer to a write is lost"
	lateRequest  move = "a request arrives after later ones"
	refusal      move = "a write is refused"
	command      move = "an operator gives a command"
	order        move = "an operator's command changes something"
	denial       move = "the settings of topics are not told"
	setting      move = "a setting of a topic changes"
	archived     move = "examples expire that can be made again"
	aged         move = "examples are older than their retention"
	shortening   move = "a topic that is followed loses messages"
	choosing     move = "stages, or a preparation, are chosen"
	searching    move = "a run of a search ends"
	verification move = "a version is made again"
	unverified   move = "a version can't be made again, as examples are lost"
	renewal      move = "a topic that is followed is made anew"
	solving      move = "an update is planned that its solver visits"
	leaving      move = "a runner whose worker can't make a visit leaves the group of workers"
)

// moves are all of them. TestSimulation checks that each happens.
var moves = []move{kill, pause, reassignment, expulsion, compaction, expiry, loss, lostAnswer, lateRequest, refusal, quarantining,
	truncation, remaking, growth, ingestion, lateSeal, forgetting, joining, stop, restaging, spreading, abortion,
	withholding, restarting, warming, overtaking, command, order, denial, setting, aged, archived, shortening, renewal, verification,
	choosing, searching, unverified, solving, leaving}

// count counts a move.
func (l *simLog) count(m move) { l.moves[m]++ }

// happen counts a move, and traces it.
func (l *simLog) happen(m move, format string, values ...any) {
	l.count(m)
	l.trace(format, values...)
}
