package pipeline

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
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
// Some scenarios make a chain of versions (simulateChain), with one or two runners, which make different plans of the
// same content. Whatever happens, the chain has all versions that it has without faults, in the same order, each once,
// with the same weights and reports. A source is sealed after the chain has passed its messages; each of its rows is
// learnt once. Rows are forgotten, or an update takes them away, and in the end no version is left that has learnt from
// them. Increments are joined, in one scenario 50 of them. Gaps in the offsets of the examples, and messages that say
// they were written next year, or do not say when, change nothing of that, whether the window is of increments or of a
// time. In one scenario the stream changes, which drops what came before, and the versions that predict test rows worse
// are withheld. If a partition is added that gets messages, or the stages change, the chain learns every row once,
// though its versions are others than without faults. Each row of a topic that is followed counts once (checkIngested), and
// each row of two files that two processes ingest meanwhile.
// Whatever operators do, the chain goes on, and no version is left that has learnt what they forgot.
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
				s := sc.simulate(seed, nil)
				again := s.log.history
				if s.violation != nil || seed%repeatEvery == 0 {
					again = sc.simulate(seed, nil).log.history
				}
				mutex.Lock()
				if again != s.log.history {
					t.Errorf("schedule %d has another history when it is simulated again: something but its seed decides it", seed)
				}
				steps += s.steps
				addMoves(happened, s.log.moves)
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
		if happened[m] == 0 && *schedules >= 3000 {
			t.Errorf("in no schedule %s", m)
		}
	}
	if outcomes[schemas.Done] == 0 || *schedules >= 1000 && (outcomes[schemas.Failed] == 0 || outcomes[schemas.Cancelled] == 0) {
		t.Errorf("runs by outcome %v: expected runs that are done, and from 1000 schedules on also failed and cancelled ones", outcomes)
	}
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
		}).withReference(t),
		newScenario(t, ingestedExamples(false), 100, columns(link.Softmax, 1), columns(link.Identity, 1)),
		newScenario(t, ingestedExamples(true), 100, columns(link.Softmax, 1), columns(link.Identity, 1)),
		newChainScenario(t, chainExamples().inSolvers(), 100, chainOptions(), columns(link.Softmax, 2), columns(link.Identity, 1)),
		newChainScenario(t, forgetfulExamples().inSolvers(), 100, chainOptions(), columns(link.Softmax, 1)),
		newChainScenario(t, laterForgottenExamples(), 100, wideOptions(), columns(link.Identity, 1)),
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
		newChainScenario(t, laterForgottenExamples().inSolvers(), 1<<20, wideOptions(), rffStage(link.Identity, 48, 2)),
		emptyChainScenario(t, manyExamples(8), 100, manyOptions(), columns(link.Identity, 1)).joining(1500).withChain(t),
		emptyChainScenario(t, chainExamples(), 100, chainOptions(), columns(link.Softmax, 1)).withJob(func(j *topics.Job) {
			j.Group = 2 // shares of two partitions
		}).withChain(t),
		newChainScenario(t, lateClassExamples(), 1<<20, chainOptions(), columns(link.Softmax, 1)),
		emptyScenario(t, sparseExamples(), 1<<19, kindStage(stages.ClassCounts, link.Softmax), blocks, columns(link.Softmax, 2)).withReference(t),
		emptyScenario(t, sparseExamples(), 100, blocks).withJob(func(j *topics.Job) {
			j.Prepare = schemas.Prepare{Scale: "unit", MinRows: 1, IDF: 1}
		}).withReference(t),
		emptyScenario(t, severalExamples(), 100, columns(link.Logistic, 2)).withJob(func(j *topics.Job) {
			j.Examples.Labels, j.Prepare.Scale = layout.LabelsSeveral, "standard"
		}).withReference(t),
		emptyScenario(t, numberExamples(), 100, columns(link.Identity, 1)).withJob(func(j *topics.Job) {
			j.Examples.Targets = []string{"x", "y"}
		}).withReference(t),
		emptyScenario(t, missingExamples(), 100, rffStage(link.Softmax, 8, 2)).withJob(func(j *topics.Job) {
			j.Examples.Missing.Mode, j.Prepare = layout.MissingMean, schemas.Prepare{Scale: "standard", PCA: 2}
		}).withReference(t),
		emptyScenario(t, imageExamples(), 1<<20, rffStage(link.Softmax, 8, 2)).withJob(func(j *topics.Job) {
			j.Examples.Image, j.Examples.Augment = []string{"2", "2", "1"}, schemas.Augment{Mirror: true, Shift: 1}
		}).withReference(t),
		emptyScenario(t, missingExamples(), 100, trees, columns(link.Softmax, 1), trees).withJob(func(j *topics.Job) {
			j.Examples.Missing.Mode = layout.MissingMean
		}).withReference(t),
		newChainScenario(t, chainExamples(), 100, chainOptions(), trees, columns(link.Softmax, 1)),
		newChainScenario(t, sparseChainExamples().inSolvers(), 100, chainOptions(), kindStage(stages.ClassCounts, link.Softmax),
			columns(link.Softmax, 2)),
		newChainScenario(t, sparseChainExamples(), 100, joiningOptions(), columns(link.Logistic, 2)).losing(),
		newChainScenario(t, chainExamples(), 100, chainOptions(), columns(link.Softmax, 1)).losing().executing(),
		newChainScenario(t, chainExamples().inSolvers(), 100, joiningOptions(), columns(link.Identity, 1)).losing().executing(),
		newAverageScenario(t, ingestedExamples(false), 100, columns(link.Softmax, 1), columns(link.Identity, 1)),
		emptyChainScenario(t, heldOutExamples(), 100, chainOptions(), ending(columns(link.Softmax, 1)), ending(columns(link.Identity, 1)),
			ending(columns(link.Softmax, 1))).choosing().withChain(t),
		emptyScenario(t, sparseExamples(), 1<<19, columns(link.Softmax, 1)).withJob(func(j *topics.Job) {
			j.Untuned, j.Unlinked = true, true
		}).choosing().withReference(t),
	}
}

// replay simulates one schedule, and logs its faults, the records of its weights topic and its outcome.
func replayed(t *testing.T, sc *scenario, seed uint64) {
	s := sc.simulate(seed, t.Logf)
	for _, m := range s.log.topics[s.topics.Weights][0].messages {
		key, _ := keyOf(m.Message)
		got := s.content(m.Message)
		t.Logf("weights@%d: %v has content %s, as without faults: %v", m.Offset, key, got, got == s.reference[key])
	}
	t.Logf("%d steps, %d writes, outcomes %v, history %08x", s.steps, s.log.writes, s.outcomes, s.log.history)
	if s.violation != nil {
		t.Error(s.violation)
	}
}

// repeatEvery is after how many schedules one is simulated again.
const repeatEvery = 101

// scenarioOf returns the scenario of a schedule.
func scenarioOf(scenarios []*scenario, seed uint64) *scenario {
	return scenarios[seed%uint64(len(scenarios))]
}

// TestSchedulesDependOnTheirSeedsAlone checks that a schedule that fails among others, on several processors, fails
// when it is replayed too: who makes each step, and every byte that is written, are the same.
func TestSchedulesDependOnTheirSeedsAlone(t *testing.T) {
	long(t)
	scenarios := simScenarios(t)
	histories := make([]uint32, len(scenarios))
	var running sync.WaitGroup
	for first := range 4 {
		running.Go(func() {
			for seed := first; seed < len(histories); seed += 4 {
				histories[seed] = scenarioOf(scenarios, uint64(seed)).simulate(uint64(seed), nil).log.history
			}
		})
	}
	running.Wait()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed, among := range histories {
		if alone := scenarioOf(scenarios, uint64(seed)).simulate(uint64(seed), nil).log.history; alone != among {
			t.Errorf("schedule %d has the history %08x alone, and %08x among others", seed, alone, among)
		}
	}
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
	executes    bool                      // runners execute the runs: see executing
	chooses     bool                      // stages are chosen, or how sparse rows are prepared: see choosing
}

// emptyScenario returns a scenario without a reference. bytes is how much memory a worker may keep rows and blocks in.
func emptyScenario(t testing.TB, examples *simExamples, bytes int64, list ...schemas.Stage) *scenario {
	t.Helper()
	blas := must(kernel.Open("gonum"))(t)
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

// newScenario returns a scenario. It runs its job without faults to get the reference.
func newScenario(t testing.TB, examples *simExamples, bytes int64, list ...schemas.Stage) *scenario {
	t.Helper()
	return emptyScenario(t, examples, bytes, list...).withReference(t)
}

// newAverageScenario is newScenario for a job of two members, each with these stages.
func newAverageScenario(t testing.TB, examples *simExamples, bytes int64, list ...schemas.Stage) *scenario {
	t.Helper()
	sc := emptyScenario(t, examples, bytes, list...)
	sc.job.Average = 2
	return sc.withReference(t)
}

// withReference runs the job of a scenario without faults to get the reference.
func (sc *scenario) withReference(t testing.TB) *scenario {
	t.Helper()
	// With two workers, each share has another owner.
	for workers := 1; workers <= simPartitions; workers++ {
		sc.learnFrom(t, workers)
	}
	return sc
}

// learnFrom runs the job of a scenario without faults, with one partition in so many owned by each worker.
func (sc *scenario) learnFrom(t testing.TB, workers int) {
	t.Helper()
	s := sc.simulation(0)
	s.random = nil
	s.log.onWrite = func(topic string, m wire.Message) {
		if isBeside(topic) {
			return
		}
		s.learn(m)
		s.checkWrite(topic, m)
	}
	s.startRoles(workers, 1)
	// A run's id depends on the text that its submission draws, which in a simulation is a number. So the reference needs as many runs
	// of either seed as a schedule can submit.
	for range 2 * simSubmissions {
		s.submit(uint64(1+s.drawn[1]/simSubmissions), false, false)
		s.awaitRuns()
	}
	for _, seed := range []uint64{2, 1} {
		for warm := range simWarmStarts {
			s.submit(seed, false, warm > 0 || seed == 2)
			s.awaitRuns()
		}
	}
	s.stopActors()
	if s.checkEnd(); s.violation != nil {
		t.Fatalf("without faults: %v", s.violation)
	}
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

// simulate simulates the schedule of a seed to its end: one to three workers, one or two solvers, and one or two rounds of
// runs with up to nine faults each, besides those of single calls (actorLog). trace, which may be nil, gets a line for each of the
// nine.
func (sc *scenario) simulate(seed uint64, trace func(format string, values ...any)) *simulation {
	s := sc.simulation(seed)
	if trace != nil {
		s.log.trace = func(format string, values ...any) {
			trace("step %d: "+format, append([]any{s.steps}, values...)...)
		}
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
