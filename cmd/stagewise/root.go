package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run/event"
)

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := group("stagewise", "Stagewise least squares over a Kafka log",
		newTrain(), newWork(), newSolve(), newIngest(), newPredict(), newWeights(), newTopics(), newCheck(), newVersion())
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SilenceUsage, root.SilenceErrors = true, true
	return root
}

// group is a command that only has others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		// Without this cobra answers an unknown command below the root with help and no error.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return fmt.Errorf("unknown command %q for %s; did you mean %s?", args[0], cmd.CommandPath(), strings.Join(near, " or "))
			}
			return fmt.Errorf("unknown command %q for %s; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("no command; see %s --help", cmd.CommandPath())
		},
		// a flag of a command that is misspelt is not what is wrong
		FParseErrWhitelist:         cobra.FParseErrWhitelist{UnknownFlags: true},
		SuggestionsMinimumDistance: 2, // cobra's own, which it sets too late for us
	}
	cmd.AddCommand(commands...)
	return cmd
}

// choice is the flags that say which configuration.
type choice struct {
	file string
	set  []string
}

func (c *choice) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.file, "config", "c", "", "the configuration, a YAML `file`")
	cmd.Flags().StringArrayVar(&c.set, "set", nil, "change a key of it, as in stages.0.passes=3 (`key=value`, any number)")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // there is no such flag
	}
}

func (c *choice) load() (*config.Config, error) { return config.Load(c.file, c.set) }

// withLog opens the log of a configuration for as long as do runs, and tells the recorder what it waits for.
func withLog(ctx context.Context, c *config.Config, rec event.Recorder, do func(*kafkalog.Log) error) (err error) {
	where := c.Log()
	where.Waiting = func(w kafkalog.Wait) {
		rec.Record(event.Waiting{What: w.What, Since: w.Since, Err: w.Err, Over: w.Over})
	}
	log, err := kafkalog.Open(ctx, where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return do(log)
}

// openBLAS opens the BLAS that STAGEWISE_BLAS names, or else the best there is.
func openBLAS() (*kernel.BLAS, error) { return kernel.Open(os.Getenv("STAGEWISE_BLAS")) }

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "What was built, and from what", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, revision := "(devel)", ""
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = " " + s.Value
					}
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "stagewise %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
