//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// runners is how many processes retrain a pipeline: one is active.
const runners = 2

// allChains makes the chains of a campaign and prints a line for each.
func (c *campaign) allChains(ctx context.Context, o options, out io.Writer) (err error) {
	if c.log, err = kafkalog.Open(ctx, kafkalog.Options{Brokers: c.cluster.direct}); err != nil {
		return err
	}
	if c.skewed, err = buildSkewed(ctx, c.folder); err != nil {
		return err
	}
	want, reference, err := c.chain(ctx, circumstances{}, nil)
	if err != nil {
		return fmt.Errorf("the chain without faults: %w", err)
	}
	if err := c.chainAlone(ctx, want); err != nil {
		return err
	}
	updates := 0
	for _, v := range want {
		if v.Update {
			updates++
		}
	}
	fmt.Fprintf(out, "chaos: without faults, %.1f s, %d versions, %d of them updates, the last %s, equal to those of one "+
		"process with the embedded broker\n",
		reference.seconds, len(want), updates, want[len(want)-1].Digest.Short())
	visits := make([]int, len(want))
	for i := range visits {
		visits[i] = chainVisits
	}
	total := tally{same: "the versions that they must have"}
	for n := range o.runs {
		seed := o.seed + uint64(n)
		c.journal.note("chain with seed %d", seed)
		in := circumstancesOf(seed)
		got, one, err := c.chain(ctx, in, in.schedule(seed, visits))
		if err == nil && one.faults[electBehind] == 0 {
			err = sameVersions(want, got)
		}
		total.add(seed, one, err == nil)
		if err != nil {
			c.dump(ctx)
			fmt.Fprint(out, &total)
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		fmt.Fprintf(out, "chaos: seed %d, %.1f s, %d versions: %s\n", seed, one.seconds, len(got), one)
	}
	fmt.Fprint(out, &total)
	return nil
}

// chainVisits is how many records of weights of each version a fault may come after.
const chainVisits = 6

// version is what must be the same of a version, whatever happens while it is made.
type version struct {
	Number int
	Update bool
	Spans  string
	Digest wire.Digest
}

// sameVersions returns an error that names the first version that differs.
func sameVersions(want, got []version) error {
	for i := range max(len(want), len(got)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("version %d differs: %+v, without faults %+v", i+1, got[min(i, len(got)):min(i+1, len(got))],
				want[min(i, len(want)):min(i+1, len(want))])
		}
	}
	return nil
}

// chain makes a chain in topics of its own while faults are injected, and returns its versions.
func (c *campaign) chain(ctx context.Context, in circumstances, faults []fault) (made []version, o outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the chain has not ended after %v", c.limit))
	defer cancel()
	c.runs++
	c.name = fmt.Sprintf("%s-%d", c.config.Name, c.runs)
	named := []string{"--set", "name=" + c.name}
	repair, err := c.ingest(ctx, in, named)
	if err != nil {
		return nil, o, errors.Join(err, repair())
	}
	named = append(named, in.replicas()...)
	counts := map[role]int{}
	if c.fleet != nil {
		counts = c.fleet.count // the logs of a process have its number
	}
	c.fleet = newFleet(c.folder, c.program, append(c.arguments(), named...))
	c.fleet.count = counts
	defer c.fleet.close()
	if in.skewed {
		c.fleet.program = c.skewed
		c.fleet.env = func() []string { // the fleet starts one process at a time
			by := between(in.draw, -maxSkew, maxSkew)
			c.journal.note("%s: the clock of the next process is ahead by %v", skewClocks, by)
			return skew(by)
		}
	}
	if err := c.scale(); err != nil {
		return nil, o, errors.Join(err, repair())
	}
	w, err := newWatch(ctx, c.log, c.name)
	if err != nil {
		return nil, o, errors.Join(err, repair())
	}
	w.chain, w.loses = true, in.behind
	start := func(bool) error { return c.fleet.start(runner, "--until", "end") }
	over := make(chan struct{})
	i := &injector{cluster: c.cluster, fleet: c.fleet, front: runner, watch: w, journal: c.journal, submit: start, over: over,
		done: map[kind]int{}}
	for k, of := range map[kind]bool{brokerDown: in.down, skewClocks: in.skewed} {
		if of {
			i.done[k]++
		}
	}
	if in.down {
		i.later(fault{kind: brokerDown, lasts: between(in.draw, 0, 4*time.Second)}, repair)
	}
	began := time.Now()
	for range runners {
		if err := start(false); err != nil {
			return nil, o, err
		}
	}
	parts, running := errgroup.WithContext(ctx)
	watching, stop := context.WithCancel(running)
	parts.Go(func() error {
		if err := w.follow(watching); watching.Err() == nil {
			return err
		}
		return nil
	})
	injected := make(chan struct{})
	parts.Go(func() error {
		defer close(injected)
		return i.run(running, faults)
	})
	parts.Go(func() error {
		defer stop()
		err := c.guardRunners(running, func() { close(over) }, injected)
		o.seconds = time.Since(began).Seconds()
		return err
	})
	if err = parts.Wait(); ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	o.faults, o.recovery = i.done, w.slowestRecovery()
	if err != nil {
		return nil, o, fmt.Errorf("%v: %w", w, err)
	}
	for _, p := range c.cluster.proxies {
		p.LoseAnswers(0)
	}
	if err := c.fleet.dismiss(slices.Concat(c.fleet.all(worker), c.fleet.all(solver))...); err != nil {
		return nil, o, err
	}
	if o.faults[electBehind] > 0 {
		if err := c.goesOn(ctx, named); err != nil {
			return nil, o, fmt.Errorf("after the brokers have lost messages: %w", err)
		}
	}
	if made, err = c.versions(ctx, o.faults[electBehind] == 0); err != nil {
		return nil, o, err
	}
	return made, o, nil
}

// guardRunners returns nil when all processes that retrain have ended without an error, as all is learnt. It calls over when the first has,
// and waits until the faults are repaired, which may start another. It is an error if another process ends on its own.
func (c *campaign) guardRunners(ctx context.Context, over func(), repaired <-chan struct{}) error {
	for ended := false; ; {
		select {
		case p := <-c.fleet.unexpected:
			if p.err != nil || p.role != runner {
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
		if ended && repaired == nil && len(c.fleet.all(runner)) == 0 {
			return nil
		}
	}
}

// goesOn runs the program once more without faults, until all is learnt.
func (c *campaign) goesOn(ctx context.Context, named []string) error {
	if err := c.scale(); err != nil {
		return err
	}
	if _, err := c.call(ctx, append([]string{"run", "--until", "end", "--quiet"}, named...)...); err != nil {
		return err
	}
	return c.fleet.dismiss(slices.Concat(c.fleet.all(worker), c.fleet.all(solver))...)
}

// versions returns the versions of the chain. If all are there, their numbers are those in the chain.
func (c *campaign) versions(ctx context.Context, all bool) (made []version, err error) {
	list, err := topics.Open(c.log, c.name, nil).Versions(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.Plan.Chain == nil || all && m.Plan.Chain.Number != m.Version {
			return nil, fmt.Errorf("version %d is not that of the chain: %+v", m.Version, m.Plan.Chain)
		}
		made = append(made, version{m.Version, m.Plan.Update() != nil, fmt.Sprint(m.Plan.Spans), m.WeightsDigest})
	}
	if len(made) == 0 {
		return nil, errors.New("the chain has made no version")
	}
	return made, nil
}

// chainAlone makes the chain in one process with the embedded broker, and compares the last version.
func (c *campaign) chainAlone(ctx context.Context, want []version) error {
	out, err := exec.CommandContext(ctx, c.program, "run", "-c", c.file, "--set", "data_dir="+filepath.Join(c.folder, "alone"),
		"--until", "end", "--quiet", "--report", "-").Output()
	if err != nil {
		return fmt.Errorf("run in one process: %w", err)
	}
	var report pipeline.Retraining
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("run in one process: %w", err)
	}
	last := want[len(want)-1]
	if report.WeightsDigest != last.Digest || len(report.Updates) != len(want) {
		return fmt.Errorf("one process has made %d versions, the last %s; several processes have made %d, the last %s",
			len(report.Updates), report.WeightsDigest.Short(), len(want), last.Digest.Short())
	}
	var rows int64
	for _, name := range c.config.Examples.Train {
		n, err := lines(name)
		if err != nil {
			return err
		}
		rows += n
	}
	if report.Rows != rows {
		return fmt.Errorf("%d rows were learnt, %s have %d", report.Rows, strings.Join(c.config.Examples.Train, ", "), rows)
	}
	return nil
}
