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
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// What there is when a run begins.
const (
	workers = 3
	solvers = 2
)

// campaign is runs of one pipeline, one after the other, on the same brokers and mostly by the same processes: what a run
// leaves behind meets the next.
type campaign struct {
	program, file string
	config        *config.Config
	limit         time.Duration // of a run
	folder        string        // of logs

	cluster *cluster
	log     *kafkalog.Log // past the proxies
	fleet   *fleet
	journal *journal

	undisturbed *pipeline.Report
	runs        int // so far
}

// outcome is what is told of a run.
type outcome struct {
	seconds  float64
	faults   map[kind]int
	recovery injury
}

// prepare ingests the examples, starts the fleet, and trains once without a fault.
func (c *campaign) prepare(ctx context.Context) error {
	var err error
	if c.log, err = kafkalog.Open(ctx, kafkalog.Options{Brokers: c.cluster.direct}); err != nil {
		return err
	}
	if _, err := c.call(ctx, "ingest"); err != nil {
		return err
	}
	c.fleet = newFleet(c.folder, c.program, c.arguments())
	return c.muster()
}

// muster makes the fleet what it is when a run begins.
func (c *campaign) muster() error {
	return errors.Join(c.fleet.muster(worker, workers), c.fleet.muster(solver, solvers))
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

// call runs a command to its end and answers with what it prints.
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

// alone trains in one process, on the embedded broker, to the same weights.
func (c *campaign) alone(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, c.program, "train", "-c", c.file, "--set", "data_dir="+filepath.Join(c.folder, "alone"), "--quiet", "--report", "-").Output()
	if err != nil {
		return fmt.Errorf("train in one process: %w", err)
	}
	var report pipeline.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("train in one process: %w", err)
	}
	if report.WeightsDigest != c.undisturbed.WeightsDigest {
		return fmt.Errorf("one process has weights %s, several have %s", report.WeightsDigest.Short(), c.undisturbed.WeightsDigest.Short())
	}
	return nil
}

// run submits a run, injects faults into it, and says what is wrong with what became of it.
func (c *campaign) run(ctx context.Context, faults []fault) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("no end after %v", c.limit))
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
	i := &injector{cluster: c.cluster, fleet: c.fleet, watch: w, journal: c.journal, submit: submit, over: over, done: map[kind]int{}}

	began := time.Now()
	parts, within := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(over)
		return w.follow(within)
	})
	parts.Go(func() error { return i.run(within, faults) })
	var took time.Duration // without the mending of what is no longer needed
	parts.Go(func() error {
		err := c.guard(within)
		took = time.Since(began)
		return err
	})
	parts.Go(func() error { return submit(false) })
	if err = parts.Wait(); ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	o := outcome{seconds: took.Seconds(), faults: i.done, recovery: w.recovery()}
	if err != nil {
		return o, fmt.Errorf("%v: %w", w, err)
	}
	for _, p := range c.cluster.proxies {
		p.LoseAnswers(0)
	}
	if err := c.check(ctx, w, file); err != nil {
		return o, fmt.Errorf("run %s: %w", w.id(), err)
	}
	return o, c.muster()
}

// guard returns when the submitter has ended as it should. Whatever else ends without being told to is trouble.
func (c *campaign) guard(ctx context.Context) error {
	for {
		select {
		case p := <-c.fleet.unasked:
			if p.err != nil || p.role != submitter {
				return fmt.Errorf("%s ended unasked, %v: see %s", p.name, p.command.ProcessState, p.log)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// check compares a run with the undisturbed one, which the first is, and its version with what subscribers see.
func (c *campaign) check(ctx context.Context, w *watch, file string) error {
	if end := w.state(); end.State != schemas.Done {
		return fmt.Errorf("it was %s: %s", end.State, end.Reason)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	report := &pipeline.Report{}
	if err := json.Unmarshal(content, report); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if report.Run != w.id() {
		return fmt.Errorf("its report is of run %s", report.Run)
	}
	list, err := c.call(ctx, "weights", "list")
	if err != nil {
		return err
	}
	if err := checkVersions(list, report.Version, report.Run); err != nil {
		return err
	}
	if c.undisturbed == nil {
		c.undisturbed = report
		return c.checkRows(report)
	}
	return compare(c.undisturbed, report)
}

// checkVersions finds each version once in what `weights list` prints, and the last to be of the run.
func checkVersions(list string, version int, run string) error {
	lines := strings.Split(strings.TrimSpace(list), "\n")[1:] // the first has titles
	runs := map[string]bool{}
	for i, line := range lines {
		columns := strings.Fields(line)
		if len(columns) < 2 || columns[0] != strconv.Itoa(i+1) || runs[columns[1]] {
			return fmt.Errorf("weights list has %q where version %d should be, once", line, i+1)
		}
		runs[columns[1]] = true
	}
	if version != len(lines) || !runs[run] {
		return fmt.Errorf("weights list has %d versions, the report is of version %d", len(lines), version)
	}
	return nil
}

// checkRows counts the rows of the files.
func (c *campaign) checkRows(r *pipeline.Report) error {
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

// compare says what a report has otherwise than another, but for what tells runs apart and for time. Rows, errors, losses and confusion
// matrices of all splits are in it.
func compare(want, got *pipeline.Report) error {
	if want.WeightsDigest != got.WeightsDigest {
		return fmt.Errorf("weights digest %s, undisturbed %s", got.WeightsDigest, want.WeightsDigest)
	}
	plain := func(r *pipeline.Report) pipeline.Report {
		p := *r
		p.Version, p.Run, p.Seconds, p.IngestSeconds = 0, "", 0, 0
		p.Stages = slices.Clone(p.Stages)
		for i := range p.Stages {
			p.Stages[i].Seconds = 0
		}
		return p
	}
	if a, b := plain(want), plain(got); !reflect.DeepEqual(a, b) {
		return fmt.Errorf("the weights are equal, the report is not: %+v, undisturbed %+v", b, a)
	}
	return nil
}
