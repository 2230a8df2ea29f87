//go:build unix

// Command chaos is a fault campaign: it starts three Kafka brokers and several workers and solvers as processes, trains on
// real data again and again, does to them what clusters do, and compares what comes out with a run that nothing disturbed.
//
// The faults of a run are a function of its seed: which ones (schedule.go), on whom, and at which visit of which stage, as
// seen on the topics. Between the processes and the brokers stand proxies (package proxy). A run passes if it ends, in time,
// with the report of the undisturbed one, bit for bit in its weights and row for row, if subscribers see its version once,
// and if no process has ended but those that were made to, those by SIGTERM within 10 s and without an error.
//
//	chaos --runs 100 --seed 7    runs with the seeds 7 to 106
//	chaos --runs 1 --seed 42     what was done to the run with seed 42, again
//
// It is started from the top folder of the repository by scripts/chaos.sh. It exits with 0 when all runs have passed; with 1
// at the first that has not, leaving the logs of all processes in a folder that it names; with 2 when the command line is
// wrong. Whatever it has started ends before it does, also on Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stagewise/stagewise/config"
)

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 10, "runs with faults")
	flag.Uint64Var(&o.seed, "seed", 1, "of the first run; the next has the next")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "a run that takes longer has failed")
	flag.StringVar(&o.program, "program", "bin/stagewise", "what is tested, a `file`")
	flag.StringVar(&o.file, "config", "chaos/digits.yaml", "what is trained, a `file`")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs of the processes in any case")
	flag.Parse()
	if flag.NArg() > 0 || o.runs < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	runs          int
	seed          uint64
	limit         time.Duration
	program, file string
	keep          bool
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	settings, err := config.Load(o.file, nil)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "stagewise-chaos-")
	if err != nil {
		return err
	}
	c := &campaign{program: o.program, file: o.file, config: settings, limit: o.limit, folder: folder}
	events, err := os.Create(filepath.Join(folder, "campaign.log"))
	if err != nil {
		return err
	}
	defer events.Close()
	c.journal = &journal{to: events}
	fmt.Fprintf(out, "chaos: seed %d, %d runs, logs in %s\n", o.seed, o.runs, folder)
	if c.cluster, err = startCluster(ctx, filepath.Join(folder, "kafka")); err == nil {
		err = c.all(ctx, o, out)
	}
	if err != nil {
		c.journal.note("%v", err)
		err = errors.Join(err, c.cluster.logs(folder))
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	err = errors.Join(err, c.close(), c.cluster.close())
	if err == nil && !o.keep {
		return os.RemoveAll(folder)
	}
	fmt.Fprintf(out, "chaos: the logs of all processes are in %s\n", folder)
	return err
}

// all makes the runs of a campaign, and tells of each.
func (c *campaign) all(ctx context.Context, o options, out io.Writer) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	undisturbed, err := c.run(ctx, nil)
	if err != nil {
		return fmt.Errorf("the undisturbed run: %w", err)
	}
	if err := c.alone(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "chaos: undisturbed, %.1f s, weights %s, as in one process with a broker of its own\n", undisturbed.seconds, c.undisturbed.WeightsDigest.Short())

	var total tally
	stages := c.config.Job().Stages
	for n := range o.runs {
		seed := o.seed + uint64(n)
		c.journal.note("run with seed %d", seed)
		one, err := c.run(ctx, schedule(seed, stages))
		total.add(seed, one, err == nil)
		if err != nil {
			c.dump(ctx)
			fmt.Fprint(out, &total)
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		fmt.Fprintf(out, "chaos: seed %d, %.1f s, equal: %s\n", seed, one.seconds, one)
	}
	fmt.Fprint(out, &total)
	return c.fleet.dismiss(slices.Concat(c.fleet.all(worker), c.fleet.all(solver))...)
}

// tally is what a campaign comes to.
type tally struct {
	runs, equal int
	least       int // faults of a run that has passed
	faults      map[kind]int
	slowest     injury
	slowestSeed uint64
}

func (t *tally) add(seed uint64, o outcome, equal bool) {
	if t.faults == nil {
		t.faults = map[kind]int{}
	}
	n := 0
	for k, count := range o.faults {
		t.faults[k] += count
		n += count
	}
	if equal {
		if t.least = min(t.least, n); t.equal == 0 {
			t.least = n
		}
		t.equal++
	}
	t.runs++
	if o.recovery.took > t.slowest.took {
		t.slowest, t.slowestSeed = o.recovery, seed
	}
}

func (t *tally) String() string {
	var b strings.Builder
	sum := 0
	for _, k := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(&b, "%6d  %s\n", t.faults[k], k)
		sum += t.faults[k]
	}
	fmt.Fprintf(&b, "chaos: %d runs, %d with digest, rows and report of the undisturbed one; %d faults, at least %d a run\n", t.runs, t.equal, sum, t.least)
	if t.slowest.took > 0 {
		fmt.Fprintf(&b, "chaos: slowest recovery %.1f s, after: %s (seed %d)\n", t.slowest.took.Seconds(), t.slowest.kind, t.slowestSeed)
	}
	return b.String()
}

func (o outcome) String() string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(o.faults)) {
		text := string(k)
		if n := o.faults[k]; n > 1 {
			text += fmt.Sprintf(" ×%d", n)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
