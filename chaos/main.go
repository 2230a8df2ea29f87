//go:build unix

// Command chaos is a fault campaign. It starts three Kafka brokers and several worker and solver processes, trains on real data
// again and again while it injects faults, and compares every run with a run without faults.
//
// The faults of a run are a function of its seed: their kinds (schedule.go), their targets, and the stage and visit of each, as
// seen on the topics. Proxies between the processes and the brokers delay and break connections (package proxy). A run is correct
// if it ends in time; if its report equals that of the run without faults, with the weights equal to the bit; if subscribers
// see its version once; and if no process ends on its own. A process that gets SIGTERM must end within 10 s and without an
// error.
//
//	chaos --runs 100 --seed 7    runs with the seeds 7 to 106
//	chaos --runs 1 --seed 42     the run with seed 42 once more
//	chaos --chain --runs 5       five chains of versions
//	chaos --embedded --runs 20   twenty chains in one process with the embedded broker
//
// With --chain a run is a chain that stagewise run makes of all that the examples topic has, in topics of its own: two
// processes retrain, of which one is active. It is correct if it ends in time, if every version equals that of the
// chain without faults, and if no process ends on its own but those that retrain, once all is learnt, without an error.
// Moments are versions and records of weights. Some chains are made while each process has a wrong clock (skew.go), some
// in topics of two replicas that were made while a broker was down, and in some a lagging broker becomes the leader, so that acknowledged
// messages are lost. Then the versions may differ, but all rows are learnt.
//
// With --embedded one process with the embedded broker makes the chain. The process is killed, its disk fills up, and a byte of its log is
// flipped, even if it is killed before it detects this. If it was only killed, every version must equal that of the chain without faults.
// Otherwise it must exit with an error that names the file, and continue once there is room or after stagewise repair.
//
// scripts/chaos.sh starts it in the top folder of the repository. Exit codes: 0, all runs passed; 1, a run failed, and the
// campaign stopped there and printed the folder with the logs of all processes; 2, the command line is wrong. All processes
// that it started end before it does, also on Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 10, "number of runs with faults")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the first run; each further run adds 1")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "time limit of a run")
	flag.StringVar(&o.program, "program", "bin/stagewise", "the `file` of the program to test")
	flag.StringVar(&o.file, "config", "", "the configuration `file` of the runs (chaos/digits.yaml, with --chain chaos/chain.yaml)")
	flag.BoolVar(&o.chain, "chain", false, "chains of versions, by stagewise run, instead of single runs")
	flag.BoolVar(&o.embedded, "embedded", false, "chains of versions in one process with the embedded broker: no other brokers")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs of the processes even if all runs are correct")
	flag.Parse()
	if o.file == "" {
		o.file = map[bool]string{false: "chaos/digits.yaml", true: "chaos/chain.yaml"}[o.chain || o.embedded]
	}
	if flag.NArg() > 0 || o.runs < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := execute(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// options are the command-line flags.
type options struct {
	runs          int
	seed          uint64
	limit         time.Duration
	program, file string
	chain, keep   bool
	embedded      bool
}

func execute(ctx context.Context, o options, out io.Writer) (err error) {
	settings, err := config.Load(o.file, nil)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "stagewise-chaos-")
	if err != nil {
		return err
	}
	c := &campaign{program: o.program, file: o.file, config: settings, name: settings.Name, limit: o.limit, folder: folder}
	events, err := os.Create(filepath.Join(folder, "campaign.log"))
	if err != nil {
		return err
	}
	defer events.Close()
	c.journal = &journal{to: events}
	fmt.Fprintf(out, "chaos: seed %d, %d runs, logs in %s\n", o.seed, o.runs, folder)
	do := c.allRuns
	switch {
	case o.embedded:
		c.cluster = &cluster{}
		do = c.embeddedChains
	case o.chain:
		do = c.allChains
	}
	if !o.embedded {
		if c.cluster, err = startCluster(ctx, filepath.Join(folder, "kafka")); err == nil {
			c.log, err = kafkalog.Open(ctx, kafkalog.Options{Brokers: c.cluster.direct})
		}
	}
	if err == nil {
		err = do(ctx, o, out)
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
