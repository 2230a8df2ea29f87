//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// allRuns makes the runs of a campaign.
func (c *campaign) allRuns(ctx context.Context, out io.Writer) error {
	if err := c.call(ctx, "ingest"); err != nil {
		return err
	}
	c.fleet = newFleet(c.folder, c.program, "train", c.arguments(), c.count)
	if err := c.scale(); err != nil {
		return err
	}
	if err := c.run(ctx, nil, map[kind]int{}); err != nil {
		return fmt.Errorf("the run without faults: %w", err)
	}
	alone := &schemas.Report{}
	if err := c.report(ctx, alone, "train"); err != nil {
		return err
	}
	if alone.WeightsDigest != c.reference.WeightsDigest {
		return fmt.Errorf("one process has weights %s, several processes have %s", alone.WeightsDigest.Short(),
			c.reference.WeightsDigest.Short())
	}
	fmt.Fprintf(out, "chaos: without faults, weights %s, equal to those of one process with the embedded broker\n",
		c.reference.WeightsDigest.Short())
	err := c.each(ctx, out, func(seed uint64, faults map[kind]int) (string, error) {
		return "equal", c.run(ctx, schedule(seed, c.records), faults)
	})
	if err != nil {
		return err
	}
	return c.dismiss()
}

// run submits a run and injects faults into it. The error says how the run differs from the expected one.
func (c *campaign) run(ctx context.Context, list []fault, faults map[kind]int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the run has not ended after %v", c.limit))
	defer cancel()
	w, err := newWatch(ctx, c.log, c.config.Name)
	if err != nil {
		return err
	}
	c.made++
	file := filepath.Join(c.folder, fmt.Sprintf("report-%d.json", c.made))
	submit := func(again bool) error {
		args := []string{"--detach", "--report", file}
		if id, _ := w.state(); id != "" && !again {
			args = []string{"--attach", id, "--report", file}
		}
		return c.fleet.start(front, args...)
	}
	if err := submit(false); err != nil {
		return err
	}
	if err := c.underFaults(ctx, w, submit, list, faults); err != nil {
		return err
	}
	if err := c.check(ctx, w, file); err != nil {
		return fmt.Errorf("%v: %w", w, err)
	}
	return c.scale()
}

// check compares a run's report with the reference run's, and its version with what subscribers see. The first run becomes the
// reference.
func (c *campaign) check(ctx context.Context, w *watch, file string) error {
	id, end := w.state()
	if end == nil || end.State != schemas.Done {
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
	if report.Run != id {
		return fmt.Errorf("its report is for run %s", report.Run)
	}
	versions, err := topics.Open(c.log, c.config.Name, nil).Versions(ctx)
	if err == nil {
		err = checkVersions(versions, report.Version, report.Run, c.config.Keep)
	}
	if err != nil {
		return err
	}
	if c.reference != nil {
		return compare(c.reference, report)
	}
	c.reference = report
	return nil
}

// checkVersions checks that a pipeline has the versions up to the run's: all of them, or at least the newest ones up to
// the number to keep, as versions may be removed a moment later.
func checkVersions(list []protocol.Finished, version int, run string, keep int) error {
	n := len(list)
	for i, v := range list {
		if want := version - n + 1 + i; v.Version != want {
			return fmt.Errorf("version %d is in the place of version %d", v.Version, want)
		}
	}
	// A solver may be killed before it removes the oldest version. The next one removes it.
	if n < min(version, keep) || n > keep+2 || list[n-1].Run != run {
		return fmt.Errorf("there are %d versions, the report has version %d of run %s", n, version, run)
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

// allChains makes the chains of a campaign.
func (c *campaign) allChains(ctx context.Context, out io.Writer) (err error) {
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
	return c.each(ctx, out, func(seed uint64, faults map[kind]int) (string, error) {
		in := circumstancesOf(seed)
		got, err := c.chain(ctx, in, in.schedule(seed, c.records), faults)
		if err == nil && faults[electBehind] == 0 {
			err = sameVersions(want, got)
		}
		return fmt.Sprintf("%d versions", len(got)), err
	})
}

// version is the part of a version that must be the same under any faults.
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
	c.made++
	c.name = fmt.Sprintf("%s-%d", c.config.Name, c.made)
	named := []string{"--set", "name=" + c.name}
	if in.behind {
		named = append(named, "--set", "topics.replication=2")
	}
	if err := c.ingest(ctx, in, named); err != nil {
		return nil, err
	}
	c.fleet = newFleet(c.folder, c.program, "run", append(c.arguments(), named...), c.count)
	defer c.fleet.close()
	if in.skewed {
		c.fleet.program = c.skewed
		c.fleet.env = func() []string { // the fleet starts one process at a time
			by := between(in.draw, -maxSkew, maxSkew)
			c.journal.Printf("%s: the clock of the next process is ahead by %v", skewClocks, by)
			return append(os.Environ(), skewVariable+"="+strconv.Itoa(int(by/time.Second)))
		}
		faults[skewClocks]++
	}
	w, err := newWatch(ctx, c.log, c.name)
	if err != nil {
		return nil, err
	}
	w.chain = true
	submit := func(bool) error { return c.fleet.start(front, "--until", "end") }
	if err := c.scale(); err != nil {
		return nil, err
	}
	for range runners {
		if err := submit(false); err != nil {
			return nil, err
		}
	}
	if err := c.underFaults(ctx, w, submit, list, faults); err != nil {
		return nil, err
	}
	if faults[electBehind] > 0 {
		if err := c.call(ctx, append([]string{"run", "--until", "end", "--quiet"}, named...)...); err != nil {
			return nil, fmt.Errorf("after the brokers have lost messages: %w", err)
		}
	}
	if err := c.dismiss(); err != nil {
		return nil, err
	}
	return c.versions(ctx, faults[electBehind] == 0)
}

// versions returns the versions of the chain. With all, each version must have its number in the chain.
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
	if err := c.report(ctx, &report, "run", "--until", "end"); err != nil {
		return err
	}
	last := want[len(want)-1]
	if report.WeightsDigest != last.Digest || len(report.Updates) != len(want) {
		return fmt.Errorf("one process has made %d versions, the last %s; several processes have made %d, the last %s",
			len(report.Updates), report.WeightsDigest.Short(), len(want), last.Digest.Short())
	}
	return nil
}

// skewClocks is a fault that a chain has from its beginning.
const skewClocks kind = "skew the clocks"

// circumstances are the conditions under which a chain is made, besides the faults of its schedule.
type circumstances struct {
	// skewed says that the clock of each process is wrong by up to maxSkew.
	skewed bool
	// behind says that topics have two replicas, and that a partition whose replicas are not in sync gets a leader
	// nevertheless (unclean.leader.election.enable), so that brokers lose acknowledged messages.
	behind bool
	draw   *rand.Rand
}

// circumstancesOf draws the circumstances of a chain. They are a function of the seed.
func circumstancesOf(seed uint64) circumstances {
	draw := rand.New(rand.NewPCG(seed, 2))
	return circumstances{behind: draw.IntN(4) == 0, skewed: draw.IntN(2) == 0, draw: draw}
}

// schedule returns the faults of a chain under the circumstances. With a lagging leader, brokers do not fail in other
// ways: all could be down at once, and lose more messages than intended.
func (c circumstances) schedule(seed uint64, records int) []fault {
	list := schedule(seed, records)
	if !c.behind {
		return list
	}
	list = slices.DeleteFunc(list, func(f fault) bool { return f.kind.ofBrokers() })
	at := c.draw.IntN(max(records*2/3, 1)) // so that the chain continues after it
	list = append(list, fault{kind: electBehind, at: at, lasts: between(c.draw, minBehind, maxBehind), target: c.draw.IntN(1 << 16)})
	slices.SortStableFunc(list, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return list
}

// brokerSession is longer than a broker's session, broker.session.timeout.ms of kafka.sh.
const brokerSession = 6 * time.Second

// Until the session of a broker expires, the others wait for it at each write. From then on it falls behind.
const minBehind, maxBehind = brokerSession, 2 * brokerSession

// ingest makes the topics of a chain and writes the examples.
func (c *campaign) ingest(ctx context.Context, in circumstances, named []string) error {
	if err := c.call(ctx, append([]string{"ingest"}, named...)...); err != nil || !in.behind {
		return err
	}
	list, err := c.log.Topics(ctx, c.name+".")
	for _, topic := range list {
		err = errors.Join(err, c.log.Configure(ctx, topic.Name, map[string]string{
			"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}))
	}
	return err
}

// Faults of a process with the embedded broker.
const (
	killProcess kind = "kill the process"
	fillDisk    kind = "fill the disk"
	flipByte    kind = "flip a byte"
	killFull    kind = "fill the disk and kill the process"
	killFlipped kind = "flip a byte and kill the process"
)

// embeddedChains makes the chains of a campaign, each in one process with the embedded broker, which is killed
// repeatedly. Without a full disk and a flipped byte every version must be that of the chain without faults. With them,
// a process may end with an error that names the file, and the next one must continue once there is room, or the log is
// repaired.
func (c *campaign) embeddedChains(ctx context.Context, out io.Writer) error {
	want, err := c.embeddedChain(ctx, "reference", nil, nil)
	if err != nil {
		return fmt.Errorf("the chain without faults: %w", err)
	}
	fmt.Fprintf(out, "chaos: without faults, %d versions, the last %s\n", len(want), want[len(want)-1].Digest.Short())
	return c.each(ctx, out, func(seed uint64, faults map[kind]int) (string, error) {
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
// versions. Without a source of random numbers there are no faults.
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
	if err := c.learnAll(ctx, name); err != nil {
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

// learnAll runs the program until all is learnt. before is the start of the command line, such as a shell that limits the program.
func (c *campaign) learnAll(ctx context.Context, name string, before ...string) error {
	_, err := c.embedded(ctx, c.data(name), append(before, c.program, "run", "--until", "end", "--quiet",
		"--report", filepath.Join(c.folder, "report.json"))...)
	return err
}

// interrupt runs the program under one fault.
func (c *campaign) interrupt(ctx context.Context, name string, draw *rand.Rand, harsh bool, faults map[kind]int) error {
	k := killProcess
	if harsh {
		k = []kind{killProcess, killProcess, fillDisk, killFull, flipByte, killFlipped}[draw.IntN(6)]
	}
	c.journal.Printf("%s", k)
	living, cancel := ctx, func() {}
	if k == killProcess || k == killFull || k == killFlipped {
		living, cancel = context.WithTimeout(ctx, between(draw, 50*time.Millisecond, 5*time.Second)) // then CommandContext kills it
	}
	defer cancel()
	switch k {
	case killProcess:
		if err := c.learnAll(living, name); err != nil && living.Err() == nil {
			return err
		}
		faults[k]++
	case fillDisk, killFull:
		err := c.learnAll(living, name, "bash", "-c", `ulimit -f "$0"; exec "$@"`, strconv.Itoa(20+draw.IntN(2000)))
		if err == nil {
			return nil // no file has reached the limit
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
		c.journal.Printf("a byte of %s is another one", file)
		faults[k]++
		if k == killFlipped {
			if err := c.learnAll(living, name); err == nil || living.Err() == nil && !failed(err) {
				return err
			}
		}
		if err := c.learnAll(ctx, name); err == nil {
			return nil // the byte is in no data that is read
		} else if !failed(err) || !strings.Contains(err.Error(), "stagewise repair") {
			return fmt.Errorf("with a flipped byte in %s: %w", file, err)
		}
		if _, err := c.embedded(ctx, c.data(name), c.program, "repair"); err != nil {
			return fmt.Errorf("repair %s: %w", file, err)
		}
	}
	return ctx.Err()
}

// failed reports whether a process ended with the exit code of a failure, and not by a panic or a signal.
func failed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 1
}

// flip changes a byte of a segment, and returns the name of its file; "" if there is none yet.
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
