//go:build unix

// Command chaos is a fault campaign. It starts three Kafka brokers and several worker and solver processes, trains on real data
// again and again while it injects faults, and compares every run with a run without faults.
//
// The faults of a run are a function of its seed: their kinds, their targets, and the number of records of weights on the topics after
// which each comes. Proxies between the processes and the brokers delay and break connections. A run is correct
// if it ends in time; if its report equals that of the run without faults, with the weights equal to the bit; if subscribers
// see its version once; and if no process ends on its own. A process that gets SIGTERM must end within 10 s and without an
// error.
//
//	chaos --runs 100 --seed 7    runs with the seeds 7 to 106
//	chaos --runs 1 --seed 42     the run with seed 42 once more
//	chaos --chain --runs 5       five chains of versions
//	chaos --embedded --runs 20   twenty chains in one process with the embedded broker
//
// With --chain a run is a chain of versions that stagewise run makes from all examples, in topics of its own: two processes retrain, one of
// which is active. It is correct if it ends in time, if every version equals that of the chain without faults, and if no process ends on
// its own but those that retrain, once all is learnt, without an error. Some chains are made while each process has a wrong clock, and in
// some, whose topics have two replicas, a lagging broker becomes the leader, so that acknowledged messages are lost. Then the versions may
// differ, but all rows are learnt.
//
// With --embedded one process with the embedded broker makes the chain. The process is killed, its disk fills up, and a byte of its log is
// flipped, even if it is killed before it detects this. If it was only killed, every version must equal that of the chain without faults.
// Otherwise it must exit with an error that names the file, and continue once there is room or after stagewise repair.
//
// make chaos starts it in the top folder of the repository. Exit codes: 0, all runs passed; 1, a run failed, and the
// campaign stopped there and printed the folder with the logs of all processes; 2, the command line is wrong. All processes
// that it started end before it does, also on Ctrl-C.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

func main() {
	var c campaign
	flag.IntVar(&c.runs, "runs", 10, "number of runs with faults")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the first run; each further run adds 1")
	flag.DurationVar(&c.limit, "limit", 5*time.Minute, "time limit of a run")
	flag.StringVar(&c.program, "program", "bin/stagewise", "the `file` of the program to test")
	flag.StringVar(&c.file, "config", "", "the configuration `file` of the runs (chaos/digits.yaml, with --chain chaos/chain.yaml)")
	flag.BoolVar(&c.chains, "chain", false, "chains of versions, by stagewise run, instead of single runs")
	flag.BoolVar(&c.alone, "embedded", false, "chains of versions in one process with the embedded broker: no other brokers")
	flag.BoolVar(&c.keep, "keep", false, "keep the logs of the processes even if all runs are correct")
	flag.Parse()
	if c.file == "" {
		c.file = map[bool]string{false: "chaos/digits.yaml", true: "chaos/chain.yaml"}[c.chains || c.alone]
	}
	if flag.NArg() > 0 || c.runs < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := c.execute(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// execute runs the campaign that the flags describe.
func (c *campaign) execute(ctx context.Context, out io.Writer) (err error) {
	if c.config, err = config.Load(c.file, nil); err != nil {
		return err
	}
	if c.folder, err = os.MkdirTemp("", "stagewise-chaos-"); err != nil {
		return err
	}
	c.name, c.count = c.config.Name, map[role]int{}
	events, err := os.Create(filepath.Join(c.folder, "campaign.log"))
	if err != nil {
		return err
	}
	defer events.Close()
	c.journal = log.New(events, "", log.LUTC|log.Lmicroseconds)
	fmt.Fprintf(out, "chaos: seed %d, %d runs, logs in %s\n", c.seed, c.runs, c.folder)
	do := c.allRuns
	switch {
	case c.alone:
		c.cluster = &cluster{}
		do = c.embeddedChains
	case c.chains:
		do = c.allChains
	}
	if !c.alone {
		if c.cluster, err = startCluster(ctx, filepath.Join(c.folder, "kafka")); err == nil {
			c.log, err = kafkalog.Open(ctx, kafkalog.Options{Brokers: c.cluster.direct})
		}
	}
	if err == nil {
		err = do(ctx, out)
	}
	if err != nil {
		c.journal.Printf("%v", err)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	err = errors.Join(err, c.close(), c.cluster.close(err != nil && ctx.Err() == nil))
	if err == nil && !c.keep {
		return os.RemoveAll(c.folder)
	}
	fmt.Fprintf(out, "chaos: the logs of all processes are in %s\n", c.folder)
	return err
}

// The processes at the start of a run.
const (
	workers = 3
	solvers = 2
	runners = 2 // of a chain: one is active
)

// campaign is a series of runs or chains on the same brokers, so that each meets the data of those before it.
type campaign struct {
	// flags
	runs                int
	seed                uint64
	limit               time.Duration
	program, file       string
	chains, alone, keep bool

	skewed string // the program with a clock that can be wrong; see buildSkewed
	config *config.Config
	name   string // of the pipeline
	folder string // for logs

	cluster *cluster
	log     *kafkalog.Log // connected to the brokers without proxies
	fleet   *fleet
	journal *log.Logger  // what the campaign does, for comparison with the logs of the processes
	made    int          // runs so far
	count   map[role]int // of all processes ever started: their logs have these numbers
	records int          // of weights, of the first run or chain, which has no faults

	reference *schemas.Report // of the single run without faults
}

// each calls one for each seed of the campaign; one makes a run, counts its faults, and returns the result. each prints
// a line per run, and the totals.
func (c *campaign) each(ctx context.Context, out io.Writer, one func(seed uint64, faults map[kind]int) (string, error)) error {
	total, fewest := map[kind]int{}, math.MaxInt
	sum := func(equal int) {
		all := 0
		for _, k := range slices.Sorted(maps.Keys(total)) {
			fmt.Fprintf(out, "%6d  %s\n", total[k], k)
			all += total[k]
		}
		fmt.Fprintf(out, "chaos: %d correct runs; %d faults, at least %d a run\n", equal, all, fewest)
	}
	for n := range c.runs {
		seed, faults, began := c.seed+uint64(n), map[kind]int{}, time.Now()
		c.journal.Printf("seed %d", seed)
		what, err := one(seed, faults)
		count := 0
		for k, n := range faults {
			count += n
			total[k] += n
		}
		fewest = min(fewest, count)
		if err != nil {
			c.dump(ctx)
			sum(n)
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		fmt.Fprintf(out, "chaos: seed %d, %.1f s, %s: %v\n", seed, time.Since(began).Seconds(), what, faults)
	}
	sum(c.runs)
	return nil
}

// scale starts and stops processes until the fleet has the processes of the start of a run.
func (c *campaign) scale() error {
	return c.fleet.scale(map[role]int{worker: workers, solver: solvers})
}

// dismiss makes all workers and solvers leave.
func (c *campaign) dismiss() error { return c.fleet.scale(map[role]int{worker: 0, solver: 0}) }

func (c *campaign) close() error {
	if c.fleet != nil {
		c.fleet.close()
	}
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}

func (c *campaign) arguments() []string {
	return []string{"-c", c.file, "--set", "brokers=" + strings.Join(c.cluster.addresses, ",")}
}

// call runs a command of the program until it ends.
func (c *campaign) call(ctx context.Context, command ...string) error {
	_, err := output(ctx, append(append([]string{c.program}, command...), c.arguments()...)...)
	return err
}

// output runs a command line, and returns its output. The error includes its standard error.
func output(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the terminal's Ctrl-C does not reach it
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// embedded runs a command of the program with the embedded broker, whose log is in the folder data, and returns its output.
func (c *campaign) embedded(ctx context.Context, data string, command ...string) (string, error) {
	return output(ctx, append(command, "-c", c.file, "--set", "data_dir="+data)...)
}

// report runs a command in one process with the embedded broker, and decodes its report.
func (c *campaign) report(ctx context.Context, report any, command ...string) error {
	words := append(append([]string{c.program}, command...), "--quiet", "--report", "-")
	out, err := c.embedded(ctx, filepath.Join(c.folder, "alone"), words...)
	if err == nil {
		err = json.Unmarshal([]byte(out), report)
	}
	if err != nil {
		return fmt.Errorf("in one process: %w", err)
	}
	return nil
}

// underFaults injects faults, which it counts, and returns when the processes of the front have ended and the faults are repaired. submit
// starts another process of the front.
func (c *campaign) underFaults(ctx context.Context, w *watch, submit func(again bool) error, faults []fault, count map[kind]int) error {
	over, injected := make(chan struct{}), make(chan struct{})
	i := &injector{campaign: c, watch: w, submit: submit, over: over, done: count}
	parts, running := errgroup.WithContext(ctx)
	watching, stop := context.WithCancel(running)
	defer stop()
	parts.Go(func() error {
		if err := w.follow(watching); watching.Err() == nil {
			return err
		}
		return nil
	})
	parts.Go(func() error {
		defer close(injected)
		return i.inject(running, faults)
	})
	parts.Go(func() error {
		if w.chain { // which has no end of its own
			defer stop()
		}
		return c.guard(running, func() { close(over) }, injected)
	})
	err := parts.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", w, err)
	}
	for _, p := range c.cluster.proxies {
		p.LoseAnswers(0)
	}
	if c.records == 0 {
		c.records = len(w.records)
	}
	return nil
}

// guard returns nil when all processes of the front have ended without an error. It calls over when the first has ended, and waits until
// the faults are repaired, which may start another one. It is an error if another process ends on its own.
func (c *campaign) guard(ctx context.Context, over func(), repaired <-chan struct{}) error {
	for ended := false; ; {
		select {
		case p := <-c.fleet.unexpected:
			if p.err != nil || p.role != front {
				return fmt.Errorf("%s ended on its own, %v: see %s", p.name, p.command.ProcessState, p.log)
			}
			if !ended {
				ended = true
				over()
			}
		case <-repaired:
			repaired = nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if ended && repaired == nil && len(c.fleet.all(front)) == 0 {
			return nil
		}
	}
}

// dump writes the headers and sizes of all messages on the topics to topics.txt in the folder of logs, to show who published
// what in which order. It runs after a failure, so it skips topics that it can't read, and does nothing without brokers.
func (c *campaign) dump(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	file, err := os.Create(filepath.Join(c.folder, "topics.txt"))
	if err != nil || c.log == nil {
		return
	}
	defer file.Close()
	client := protocol.NewClient(c.log, c.name, nil)
	t := client.Topics
	for _, topic := range []string{t.Plans, t.Weights, t.Statistics, t.Residuals, t.State} {
		partitions, err := c.log.Partitions(ctx, topic)
		for p := 0; p < partitions && err == nil; p++ {
			var m protocol.Message
			for m, err = range client.Remaining(ctx, topic, p, 0, math.MaxInt64) {
				if err != nil {
					break
				}
				fmt.Fprintf(file, "%s[%d]@%d %d bytes", topic, p, m.Offset, len(m.Value))
				for _, h := range m.Headers {
					fmt.Fprintf(file, " %s=%.12s", h.Key, h.Value)
				}
				fmt.Fprintln(file)
			}
		}
		if err != nil {
			fmt.Fprintln(file, err)
		}
	}
}
