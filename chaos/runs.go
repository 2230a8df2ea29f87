//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// training makes the runs of one pipeline, mostly by the same processes.
type training struct {
	*campaign
	forgetful bool            // the brokers keep the examples only for minutes
	reference *schemas.Report // of the run without faults
}

// forgetfulRuns is in which of how many runs the brokers keep the examples only for minutes.
const forgetfulRuns = 10

// allRuns makes the runs of a campaign.
func (c *campaign) allRuns(ctx context.Context, o options, out io.Writer) error {
	t := &training{campaign: c}
	if _, err := c.call(ctx, "ingest"); err != nil {
		return err
	}
	c.fleet = newFleet(c.folder, c.program, c.arguments())
	if err := c.scale(); err != nil {
		return err
	}
	if err := t.run(ctx, nil, map[kind]int{}); err != nil {
		return fmt.Errorf("the run without faults: %w", err)
	}
	alone := &schemas.Report{}
	if err := c.alone(ctx, alone, "train"); err != nil {
		return err
	}
	if alone.WeightsDigest != t.reference.WeightsDigest {
		return fmt.Errorf("one process has weights %s, several processes have %s", alone.WeightsDigest.Short(),
			t.reference.WeightsDigest.Short())
	}
	fmt.Fprintf(out, "chaos: without faults, weights %s, equal to those of one process with the embedded broker\n",
		t.reference.WeightsDigest.Short())
	visits := visitsOf(c.config.Job().Stages)
	err := c.each(ctx, o, out, func(seed uint64, n int, faults map[kind]int) (string, error) {
		if err := t.remember(ctx, n%forgetfulRuns == forgetfulRuns-1); err != nil {
			return "", fmt.Errorf("recreate the examples topic: %w", err)
		}
		return map[bool]string{false: "equal", true: "equal, examples stay for minutes"}[t.forgetful],
			t.run(ctx, schedule(seed, kinds(), visits), faults)
	})
	if err != nil {
		return err
	}
	return c.dismiss()
}

// The settings of the examples topic while brokers forget. A run of half a minute is far from the end of its examples, and one that
// takes long gets near it.
var forgetting = []string{"--set", "topics.retention.examples=4m", "--set", "topics.segment_time=1m"}

// remember makes the examples topic anew, for brokers that keep examples only for minutes, or for as long as there is space. Its
// offsets begin at 0 again, as do those of the run without faults. Nothing happens if the topic is so already.
func (t *training) remember(ctx context.Context, forget bool) error {
	if forget == t.forgetful && !forget {
		return nil
	}
	if err := t.dismiss(); err != nil { // a member of a group can't go on without the topic that the group divides
		return err
	}
	if err := t.log.Delete(ctx, t.config.Name+".examples"); err != nil {
		return err
	}
	command := []string{"ingest"}
	if forget {
		command = append(command, forgetting...)
	}
	if _, err := t.call(ctx, command...); err != nil {
		return err
	}
	t.forgetful = forget
	return t.scale()
}

// run submits a run and injects faults into it. Its error says how the run differs from what it must be.
func (t *training) run(ctx context.Context, list []fault, faults map[kind]int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, fmt.Errorf("the run has not ended after %v", t.limit))
	defer cancel()
	w, err := newWatch(ctx, t.log, t.config.Name)
	if err != nil {
		return err
	}
	t.runs++
	file := filepath.Join(t.folder, fmt.Sprintf("report-%d.json", t.runs))
	submit := func(again bool) error {
		args := []string{"--detach", "--report", file}
		if id := w.id(); id != "" && !again {
			args = []string{"--attach", id, "--report", file}
		}
		return t.fleet.start(submitter, args...)
	}
	if err := submit(false); err != nil {
		return err
	}
	i := &injector{front: submitter, submit: submit, done: faults}
	if err := t.underFaults(ctx, w, i, list, t.guard(submitter)); err != nil {
		return err
	}
	if err := t.check(ctx, w, file); err != nil {
		return fmt.Errorf("run %s: %w", w.id(), err)
	}
	return t.scale()
}

// check compares a run's report with the reference run's, and its version with what subscribers see. The first run becomes the
// reference.
func (t *training) check(ctx context.Context, w *watch, file string) error {
	if end := w.state(); end == nil || end.State != schemas.Done {
		return fmt.Errorf("it ended as %+v", end)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	report := &schemas.Report{}
	if err := json.Unmarshal(content, report); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if report.Run != w.id() {
		return fmt.Errorf("its report is for run %s", report.Run)
	}
	list, err := t.call(ctx, "weights", "list")
	if err != nil {
		return err
	}
	if err := checkVersions(list, report.Version, report.Run, t.config.Keep); err != nil {
		return err
	}
	if t.reference != nil {
		return compare(t.reference, report)
	}
	t.reference = report
	for split, files := range map[string][]string{"train": t.config.Examples.Train, "test": t.config.Examples.Test} {
		n, err := rows(files)
		if err != nil {
			return err
		}
		if got := report.Splits[split].Rows; got != n || split == "train" && report.Rows != n {
			return fmt.Errorf("%d %s rows, the files have %d", got, split, n)
		}
	}
	return nil
}

// checkVersions checks that the output of `weights list` has the versions up to the run's, each once: all of them, or the latest of
// as many as stay or more, as versions may be removed a moment later.
func checkVersions(list string, version int, run string, keep int) error {
	lines := strings.Split(strings.TrimSpace(list), "\n")[1:] // without the column titles
	runs := map[string]bool{}
	for i, line := range lines {
		columns := strings.Fields(line)
		if want := version - len(lines) + 1 + i; len(columns) < 2 || columns[0] != strconv.Itoa(want) || runs[columns[1]] {
			return fmt.Errorf("weights list has %q in the place of version %d", line, want)
		}
		runs[columns[1]] = true
	}
	// A solver may be killed before it removes the oldest version. The next one removes it.
	if len(lines) < min(version, keep) || len(lines) > keep+2 || !runs[run] {
		return fmt.Errorf("weights list has %d versions, the report has version %d", len(lines), version)
	}
	return nil
}

// compare returns an error if two reports differ in anything but version, run id and times. Reports include rows, errors, losses
// and confusion matrices of all splits.
func compare(want, got *schemas.Report) error {
	if want.WeightsDigest != got.WeightsDigest {
		return fmt.Errorf("the weights digest is %s, without faults it is %s", got.WeightsDigest, want.WeightsDigest)
	}
	normalise := func(r *schemas.Report) schemas.Report {
		p := *r
		p.Version, p.Run, p.Seconds, p.IngestSeconds = 0, "", 0, 0
		p.Stages = slices.Clone(p.Stages)
		for i := range p.Stages {
			p.Stages[i].Seconds = 0
		}
		return p
	}
	if a, b := normalise(want), normalise(got); !reflect.DeepEqual(a, b) {
		return fmt.Errorf("the weights are equal but the reports differ: %+v, without faults %+v", b, a)
	}
	return nil
}
