//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// allChains makes the chains of a campaign.
func (c *campaign) allChains(ctx context.Context, o options, out io.Writer) (err error) {
	if c.skewed, err = buildSkewed(ctx, c.folder); err != nil {
		return err
	}
	want, err := c.chain(ctx, circumstances{}, nil, map[kind]int{})
	if err != nil {
		return fmt.Errorf("the chain without faults: %w", err)
	}
	if err := c.chainAlone(ctx, want); err != nil {
		return err
	}
	fmt.Fprintf(out, "chaos: without faults, %d versions, the last %s, equal to those of one process with the embedded broker\n", len(want),
		want[len(want)-1].Digest.Short())
	visits := slices.Repeat([]int{chainVisits}, len(want))
	return c.each(ctx, o, out, func(seed uint64, _ int, faults map[kind]int) (string, error) {
		in := circumstancesOf(seed)
		got, err := c.chain(ctx, in, in.schedule(seed, visits), faults)
		if err == nil && faults[electBehind] == 0 {
			err = sameVersions(want, got)
		}
		return fmt.Sprintf("%d versions", len(got)), err
	})
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

// chain makes a chain in topics of its own while faults are injected, which it counts, and returns its versions.
func (c *campaign) chain(ctx context.Context, in circumstances, list []fault, faults map[kind]int) ([]version, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the chain has not ended after %v", c.limit))
	defer cancel()
	c.runs++
	c.name = fmt.Sprintf("%s-%d", c.config.Name, c.runs)
	named := []string{"--set", "name=" + c.name}
	repair, err := c.ingest(ctx, in, named)
	if err != nil {
		return nil, errors.Join(err, repair())
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
		faults[skewClocks]++
	}
	w, err := newWatch(ctx, c.log, c.name)
	if err != nil {
		return nil, errors.Join(err, repair())
	}
	w.chain = true
	i := &injector{front: runner, submit: func(bool) error { return c.fleet.start(runner, "--until", "end") }, done: faults}
	if in.down {
		faults[brokerDown]++
		i.before = func() { i.later(fault{kind: brokerDown, lasts: between(in.draw, 0, 4*time.Second)}, repair) }
	}
	if err := c.scale(); err != nil {
		return nil, errors.Join(err, repair())
	}
	for range runners {
		if err := i.submit(false); err != nil {
			return nil, errors.Join(err, repair())
		}
	}
	if err := c.underFaults(ctx, w, i, list, c.guard(runner)); err != nil {
		return nil, err
	}
	if faults[electBehind] > 0 {
		if _, err := c.call(ctx, append([]string{"run", "--until", "end", "--quiet"}, named...)...); err != nil {
			return nil, fmt.Errorf("after the brokers have lost messages: %w", err)
		}
	}
	if err := c.dismiss(); err != nil {
		return nil, err
	}
	return c.versions(ctx, faults[electBehind] == 0)
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
	var report pipeline.Retraining
	if err := c.alone(ctx, &report, "run", "--until", "end"); err != nil {
		return err
	}
	last := want[len(want)-1]
	if report.WeightsDigest != last.Digest || len(report.Updates) != len(want) {
		return fmt.Errorf("one process has made %d versions, the last %s; several processes have made %d, the last %s",
			len(report.Updates), report.WeightsDigest.Short(), len(want), last.Digest.Short())
	}
	n, err := rows(c.config.Examples.Train)
	if err == nil && report.Rows != n {
		err = fmt.Errorf("%d rows were learnt, %s have %d", report.Rows, strings.Join(c.config.Examples.Train, ", "), n)
	}
	return err
}
