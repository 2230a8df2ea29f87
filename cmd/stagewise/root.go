package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the command stagewise with all commands below it.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := newGroup("stagewise", "Train multi-class models from Kafka logs by stagewise least squares",
		newInit(), newTrain(), newRun(), newWork(), newSolve(), newIngest(), newPredict(), newExplain(), newServe(), newScore(), newPage(),
		newSearch(), newVerify(), newForget(), newWeights(), newRuns(), newSources(), newQuarantine(), newTopics(), newRepair(), newCheck(),
		newHealth(), newMan(), newVersion())
	root.Long = root.Short + ".\n\nExit codes: 0 success; 1 the run failed; 2 the configuration or the command line is wrong; 130 " +
		"interrupted; 143 terminated by SIGTERM (services: 0)."
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SilenceUsage, root.SilenceErrors = true, true
	return root
}

// exactly accepts one argument, of which it has the name that the usage has: a URL, a FILE.
func exactly(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return fmt.Errorf("expected one argument, %s, found %d; see %s --help", name, len(args), cmd.CommandPath())
	}
}

// newGroup returns a command that does nothing itself: the given commands are below it.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		// Without this check cobra answers an unknown command below the root with help, and without an error.
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
		// The flags after a misspelt command belong to that command. The error must name the command, not its flags.
		FParseErrWhitelist:         cobra.FParseErrWhitelist{UnknownFlags: true},
		SuggestionsMinimumDistance: 2, // cobra's own default, which it sets only after Args has run
		DisableFlagsInUseLine:      true,
	}
	cmd.AddCommand(commands...)
	return cmd
}
