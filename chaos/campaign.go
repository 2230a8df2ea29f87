//go:build unix

package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// The processes at the start of a run.
const (
	workers = 3
	solvers = 2
	runners = 2 // of a chain: one is active
)

// campaign is a series of runs or chains on the same brokers, so that each meets what those before it left behind.
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
	runs    int // so far
}

// each makes runs with the seeds of the options by one, which counts the faults and returns what the run is. It prints a line for each,
// and the sum.
func (c *campaign) each(ctx context.Context, o options, out io.Writer,
	one func(seed uint64, n int, faults map[kind]int) (string, error)) error {
	total, fewest := map[kind]int{}, 0
	sum := func(equal int) {
		all := 0
		for _, k := range slices.Sorted(maps.Keys(total)) {
			fmt.Fprintf(out, "%6d  %s\n", total[k], k)
			all += total[k]
		}
		fmt.Fprintf(out, "chaos: %d correct runs; %d faults, at least %d a run\n", equal, all, fewest)
	}
	for n := range o.runs {
		seed, faults, began := o.seed+uint64(n), map[kind]int{}, time.Now()
		c.journal.note("seed %d", seed)
		what, err := one(seed, n, faults)
		var list []string
		count := 0
		for _, k := range slices.Sorted(maps.Keys(faults)) {
			list = append(list, fmt.Sprintf("%s ×%d", k, faults[k]))
			count += faults[k]
			total[k] += faults[k]
		}
		if fewest = min(fewest, count); n == 0 {
			fewest = count
		}
		if err != nil {
			c.dump(ctx)
			sum(n)
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		fmt.Fprintf(out, "chaos: seed %d, %.1f s, %s: %s\n", seed, time.Since(began).Seconds(), what, strings.Join(list, ", "))
	}
	sum(o.runs)
	return nil
}

// scale starts and stops processes until the fleet is as it must be at the start of a run.
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
	return []string{"-c", c.file, "--set", "brokers=" + strings.Join(c.cluster.addresses(), ",")}
}

// call runs a command of the program until it ends, and returns its output.
func (c *campaign) call(ctx context.Context, command ...string) (string, error) {
	return output(ctx, append(append([]string{c.program}, command...), c.arguments()...)...)
}

// output runs a command line, and returns its output. An error has what it says.
func output(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// alone runs a command in one process with the embedded broker, and decodes its report.
func (c *campaign) alone(ctx context.Context, report any, command ...string) error {
	out, err := output(ctx, append([]string{c.program}, append(command, "-c", c.file, "--set", "data_dir="+filepath.Join(c.folder, "alone"),
		"--quiet", "--report", "-")...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), report)
	}
	if err != nil {
		return fmt.Errorf("in one process: %w", err)
	}
	return nil
}

// underFaults starts processes of a role by start, injects faults, and returns when guard does and the faults are repaired. over
// ends the injection.
func (c *campaign) underFaults(ctx context.Context, w *watch, i *injector, faults []fault,
	guard func(ctx context.Context, over func(), repaired <-chan struct{}) error) error {
	over, injected := make(chan struct{}), make(chan struct{})
	i.cluster, i.fleet, i.watch, i.journal, i.over = c.cluster, c.fleet, w, c.journal, over
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
		return i.run(running, faults)
	})
	parts.Go(func() error {
		if w.chain { // which has no end of its own
			defer stop()
		}
		return guard(running, func() { close(over) }, injected)
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
	return nil
}

// guard returns nil when all processes of a role have ended without an error. It calls over when the first has, and waits until the
// faults are repaired, which may start another. It is an error if another process ends on its own.
func (c *campaign) guard(r role) func(context.Context, func(), <-chan struct{}) error {
	return func(ctx context.Context, over func(), repaired <-chan struct{}) error {
		for ended := false; ; {
			select {
			case p := <-c.fleet.unexpected:
				if p.err != nil || p.role != r {
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
			if ended && repaired == nil && len(c.fleet.all(r)) == 0 {
				return nil
			}
		}
	}
}

// rows returns the number of rows of files.
func rows(files []string) (n int64, err error) {
	for _, name := range files {
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
		if err := scanner.Err(); err != nil {
			return 0, err
		}
	}
	return n, nil
}
