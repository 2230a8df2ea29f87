//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// Faults of a process with the embedded broker.
const (
	killProcess kind = "kill the process"
	fillDisk    kind = "fill the disk"
	flipByte    kind = "flip a byte"
	killFull    kind = "fill the disk and kill the process"
	killFlipped kind = "flip a byte and kill the process"
)

// embeddedChains makes the chains of a campaign, each in one process with the embedded broker, which is killed again
// and again. Without a full disk and a flipped byte every version must be that of the chain without faults. With them,
// a process may end with an error that names the file, and the next one must go on once there is room, or the log is
// repaired.
func (c *campaign) embeddedChains(ctx context.Context, o options, out io.Writer) error {
	want, err := c.embeddedChain(ctx, "reference", nil, nil)
	if err != nil {
		return fmt.Errorf("the chain without faults: %w", err)
	}
	fmt.Fprintf(out, "chaos: without faults, %d versions, the last %s\n", len(want), want[len(want)-1].Digest.Short())
	return c.each(ctx, o, out, func(seed uint64, _ int, faults map[kind]int) (string, error) {
		name := strconv.FormatUint(seed, 10)
		got, err := c.embeddedChain(ctx, name, rand.New(rand.NewPCG(seed, 1)), faults)
		if err == nil && faults[fillDisk]+faults[killFull]+faults[flipByte]+faults[killFlipped] == 0 {
			err = sameVersions(want, got)
		}
		if err == nil {
			err = os.RemoveAll(c.data(name))
		}
		return fmt.Sprintf("%d versions", len(got)), err
	})
}

func (c *campaign) data(name string) string { return filepath.Join(c.folder, "embedded-"+name) }

// embeddedChain makes a chain in a folder of its own under the faults that it draws, which it counts, and returns its
// versions. Without a source of random numbers there are none.
func (c *campaign) embeddedChain(ctx context.Context, name string, draw *rand.Rand, faults map[kind]int) ([]version, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the chain has not ended after %v", c.limit))
	defer cancel()
	if draw != nil {
		harsh := draw.IntN(2) == 0
		for range minFaults + draw.IntN(maxFaults-minFaults+1) {
			if err := c.interrupt(ctx, name, draw, harsh, faults); err != nil {
				return nil, err
			}
		}
	}
	if err := c.embedded(ctx, name); err != nil {
		return nil, err
	}
	log, err := kafkalog.Open(ctx, kafkalog.Options{DataDir: c.data(name)})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.log, c.name = log, c.config.Name
	defer func() { c.log = nil }()
	return c.versions(ctx, true)
}

// embedded runs the program until all is learnt. before are words that come before its command, such as a shell that limits it.
func (c *campaign) embedded(ctx context.Context, name string, before ...string) error {
	_, err := output(ctx, append(before, c.program, "run", "-c", c.file, "--set", "data_dir="+c.data(name), "--until", "end",
		"--quiet", "--report", filepath.Join(c.folder, "report.json"))...)
	return err
}

// interrupt runs the program under one fault.
func (c *campaign) interrupt(ctx context.Context, name string, draw *rand.Rand, harsh bool, faults map[kind]int) error {
	k := killProcess
	if harsh {
		k = []kind{killProcess, killProcess, fillDisk, killFull, flipByte, killFlipped}[draw.IntN(6)]
	}
	c.journal.note("%s", k)
	living, cancel := ctx, func() {}
	if k == killProcess || k == killFull || k == killFlipped {
		living, cancel = context.WithTimeout(ctx, between(draw, 50*time.Millisecond, 5*time.Second)) // then CommandContext kills it
	}
	defer cancel()
	switch k {
	case killProcess:
		if err := c.embedded(living, name); err != nil && living.Err() == nil {
			return err
		}
		faults[k]++
	case fillDisk, killFull:
		err := c.embedded(living, name, "bash", "-c", `ulimit -f "$0"; exec "$@"`, strconv.Itoa(20+draw.IntN(2000)))
		if err == nil {
			return nil // no file has become so long
		}
		if k == killFull && living.Err() != nil {
			faults[k]++
			return ctx.Err()
		}
		if !failed(err) || !strings.Contains(err.Error(), "could not write to "+c.data(name)) && !strings.Contains(err.Error(),
			"file too large") {
			return fmt.Errorf("with a full disk: %w", err)
		}
		faults[k]++
	case flipByte, killFlipped:
		file, err := c.flip(name, draw)
		if err != nil || file == "" {
			return err
		}
		c.journal.note("a byte of %s is another one", file)
		faults[k]++
		if k == killFlipped {
			if err := c.embedded(living, name); err == nil || living.Err() == nil && !failed(err) {
				return err
			}
		}
		if err := c.embedded(ctx, name); err == nil {
			return nil // it is in nothing that is read
		} else if !failed(err) || !strings.Contains(err.Error(), "stagewise repair") {
			return fmt.Errorf("with a flipped byte in %s: %w", file, err)
		}
		if _, err := output(ctx, c.program, "repair", "-c", c.file, "--set", "data_dir="+c.data(name)); err != nil {
			return fmt.Errorf("repair %s: %w", file, err)
		}
	}
	return ctx.Err()
}

// failed reports whether a process ended with the exit code for what fails, and not by a panic or a signal.
func failed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 1
}

// flip changes a byte of a segment, and returns which file that is; "" if there is none yet.
func (c *campaign) flip(name string, draw *rand.Rand) (string, error) {
	files, err := filepath.Glob(filepath.Join(c.data(name), "log", "partitions", "*", "*.dat"))
	if err != nil || len(files) == 0 {
		return "", err
	}
	file := files[draw.IntN(len(files))]
	content, err := os.ReadFile(file)
	if err != nil || len(content) == 0 {
		return "", err
	}
	content[draw.IntN(len(content))] ^= byte(1 + draw.IntN(255))
	return file, os.WriteFile(file, content, 0o644)
}
