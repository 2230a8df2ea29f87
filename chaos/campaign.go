//go:build unix

package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// The processes at the start of a run.
const (
	workers = 3
	solvers = 2
)

// campaign is a series of runs of one pipeline, on the same brokers and mostly by the same processes, so that each run meets
// what the runs before it left behind.
type campaign struct {
	program, file string
	skewed        string // the program with a clock that can be wrong; see buildSkewed
	config        *config.Config
	name          string        // of the pipeline
	limit         time.Duration // for each run
	folder        string        // for logs

	cluster *cluster
	log     *kafkalog.Log // connected to the brokers without proxies
	fleet   *fleet
	journal *journal

	forgetful bool            // the brokers keep the examples only for minutes
	reference *schemas.Report // of the run without faults
	runs      int             // so far
}

// outcome is the result of a run.
type outcome struct {
	seconds  float64
	faults   map[kind]int
	recovery recovery // the slowest
	// forgetful says that the brokers kept the examples only for minutes.
	forgetful bool
}

// prepare ingests the examples and starts the fleet.
func (c *campaign) prepare(ctx context.Context) error {
	var err error
	if c.log, err = kafkalog.Open(ctx, kafkalog.Options{Brokers: c.cluster.direct}); err != nil {
		return err
	}
	if _, err := c.call(ctx, "ingest"); err != nil {
		return err
	}
	c.fleet = newFleet(c.folder, c.program, c.arguments())
	return c.scale()
}

// The settings of the examples topic while brokers forget. A run of half a minute is far from the end of its examples, and one that
// takes long gets near it.
var forgetting = []string{"--set", "topics.retention.examples=4m", "--set", "topics.segment_time=1m"}

// remember makes the examples topic anew, for brokers that keep examples only for minutes, or for as long as there is space. Its
// offsets begin at 0 again, as do those of the run without faults. Nothing happens if the topic is so already.
func (c *campaign) remember(ctx context.Context, forget bool) error {
	if forget == c.forgetful && !forget {
		return nil
	}
	// A member of a group can't go on without the topic that the group divides.
	if err := c.fleet.dismiss(slices.Concat(c.fleet.all(worker), c.fleet.all(solver))...); err != nil {
		return err
	}
	if err := c.log.Delete(ctx, c.config.Name+".examples"); err != nil {
		return err
	}
	command := []string{"ingest"}
	if forget {
		command = append(command, forgetting...)
	}
	if _, err := c.call(ctx, command...); err != nil {
		return err
	}
	c.forgetful = forget
	return c.scale()
}

// scale starts and stops processes until the fleet is as it must be at the start of a run.
func (c *campaign) scale() error {
	return errors.Join(c.fleet.scale(worker, workers), c.fleet.scale(solver, solvers))
}

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
	return []string{"-c", c.file, "--set", "brokers=" + strings.Join(c.cluster.addresses(), ",")}
}

// call runs a command of the program until it ends, and returns its output.
func (c *campaign) call(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.program, append(command, c.arguments()...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// alone trains in one process with the embedded broker, and compares the weights with the reference run's.
func (c *campaign) alone(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, c.program, "train", "-c", c.file, "--set", "data_dir="+filepath.Join(c.folder, "alone"),
		"--quiet", "--report", "-").Output()
	if err != nil {
		return fmt.Errorf("train in one process: %w", err)
	}
	var report schemas.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("train in one process: %w", err)
	}
	if report.WeightsDigest != c.reference.WeightsDigest {
		return fmt.Errorf("one process has weights %s, several processes have %s", report.WeightsDigest.Short(),
			c.reference.WeightsDigest.Short())
	}
	return nil
}

// run submits a run and injects faults into it. Its error says how the run differs from what it must be.
func (c *campaign) run(ctx context.Context, faults []fault) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the run has not ended after %v", c.limit))
	defer cancel()
	w, err := newWatch(ctx, c.log, c.config.Name)
	if err != nil {
		return outcome{}, err
	}
	c.runs++
	file := filepath.Join(c.folder, fmt.Sprintf("report-%d.json", c.runs))
	submit := func(again bool) error {
		args := []string{"--detach", "--report", file}
		if id := w.id(); id != "" && !again {
			args = []string{"--attach", id, "--report", file}
		}
		return c.fleet.start(submitter, args...)
	}
	over := make(chan struct{})
	i := &injector{cluster: c.cluster, fleet: c.fleet, front: submitter, watch: w, journal: c.journal, submit: submit, over: over,
		done: map[kind]int{}}

	began := time.Now()
	parts, running := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(over)
		return w.follow(running)
	})
	parts.Go(func() error { return i.run(running, faults) })
	var took time.Duration // without the recovery from the last faults
	parts.Go(func() error {
		err := c.guard(running)
		took = time.Since(began)
		return err
	})
	parts.Go(func() error { return submit(false) })
	if err = parts.Wait(); ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	o := outcome{seconds: took.Seconds(), faults: i.done, recovery: w.slowestRecovery()}
	if err != nil {
		return o, fmt.Errorf("%v: %w", w, err)
	}
	for _, p := range c.cluster.proxies {
		p.LoseAnswers(0)
	}
	if err := c.check(ctx, w, file); err != nil {
		return o, fmt.Errorf("run %s: %w", w.id(), err)
	}
	return o, c.scale()
}

// guard returns nil when the submitter has ended without an error. It is an error if another process ends on its own.
func (c *campaign) guard(ctx context.Context) error {
	for {
		select {
		case p := <-c.fleet.unexpected:
			if p.err != nil || p.role != submitter {
				return fmt.Errorf("%s ended on its own, %v: see %s", p.name, p.command.ProcessState, p.log)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// check compares a run's report with the reference run's, and its version with what subscribers see. The first run becomes the
// reference.
func (c *campaign) check(ctx context.Context, w *watch, file string) error {
	if end := w.state(); end.State != schemas.Done {
		return fmt.Errorf("it ended in state %s: %s", end.State, end.Reason)
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
	list, err := c.call(ctx, "weights", "list")
	if err != nil {
		return err
	}
	if err := checkVersions(list, report.Version, report.Run, c.config.Keep); err != nil {
		return err
	}
	if c.reference == nil {
		c.reference = report
		return c.checkRows(report)
	}
	return compare(c.reference, report)
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

// checkRows compares a report's rows with the rows of the files.
func (c *campaign) checkRows(r *schemas.Report) error {
	for split, files := range map[string][]string{"train": c.config.Examples.Train, "test": c.config.Examples.Test} {
		rows := int64(0)
		for _, name := range files {
			n, err := lines(name)
			if err != nil {
				return err
			}
			rows += n
		}
		if got := r.Splits[split].Rows; got != rows || split == "train" && r.Rows != rows {
			return fmt.Errorf("%d %s rows, the files have %d", got, split, rows)
		}
	}
	return nil
}

func lines(name string) (n int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	content, err := gzip.NewReader(file)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	scanner := bufio.NewScanner(content)
	for scanner.Scan() {
		n++
	}
	return n, scanner.Err()
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
