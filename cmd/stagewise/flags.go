package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/internal/option"
)

// wrongFlag returns an error of the command line in the form of an [option.Problem].
func wrongFlag(_ *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s: %s: %w", wrong.GetFlag().Name, wrong.GetValue(), wrong.Unwrap())
	}
	return err
}

// unsetEmpty treats flags with an empty text as absent, such as those of scripts that pass an empty variable.
func unsetEmpty(cmd *cobra.Command, _ []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			f.Changed = false
			_ = f.Value.Set(f.DefValue) // which is valid
		}
	})
}

// checked is the value of a text flag. check is not called for an empty text; its error says what was expected.
type checked struct {
	value *string
	check func(text string) error
}

func (c checked) String() string { return *c.value }

func (checked) Type() string { return "string" }

func (c checked) Set(text string) error {
	if text != "" {
		if err := c.check(text); err != nil {
			return err
		}
	}
	*c.value = text
	return nil
}

// choose defines a flag whose value is one of some names.
func choose(cmd *cobra.Command, value *string, name, usage string, names ...string) {
	cmd.Flags().Var(checked{value, func(text string) error {
		if !slices.Contains(names, text) {
			return errors.New("expected " + english.WordSeries(names, "or"))
		}
		return nil
	}}, name, usage)
	must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
}

// outputFile is the value of a flag that names a file to write.
type outputFile struct{ checked }

// addOutput defines such a flag. shorthand may be empty. The standard output can have only one file.
func addOutput(cmd *cobra.Command, path *string, name, shorthand, usage string) {
	cmd.Flags().VarP(outputFile{checked{path, func(text string) (err error) {
		if text != screen.StandardOutput {
			return screen.CheckWritable(text)
		}
		cmd.Flags().Visit(func(other *pflag.Flag) {
			if _, is := other.Value.(outputFile); is && other.Name != name && other.Value.String() == screen.StandardOutput {
				err = fmt.Errorf("expected - for only one of --%s and --%s", other.Name, name)
			}
		})
		return err
	}}}, name, shorthand, usage)
}

// whole is the value of a flag that is a whole number in a range. A maximum of 0 means none.
type whole struct {
	value       *int
	least, most int
}

func (w whole) String() string { return strconv.Itoa(*w.value) }

func (whole) Type() string { return "int" }

func (w whole) Set(text string) error {
	n, err := strconv.Atoi(text)
	if rule := option.Whole(w.least, w.most); err != nil || !rule.Holds(n) {
		return errors.New("expected " + rule.Want)
	}
	*w.value = n
	return nil
}

// excludes makes a command reject other flags together with flag, and say why.
func excludes(cmd *cobra.Command, flag, why string, others ...string) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		for _, other := range others {
			if cmd.Flags().Changed(flag) && cmd.Flags().Changed(other) {
				return fmt.Errorf("--%s: expected no --%s with it: %s", flag, other, why)
			}
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// markRequired makes cobra reject a command line without these flags. It panics if cmd does not have them.
func markRequired(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		must(cmd.MarkFlagRequired(flag))
	}
}

// must panics with an error about a command that this program defined wrongly.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
