package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newWeights() *cobra.Command {
	return newGroup("weights", "List, export, pin or remove the finished versions of a pipeline", newWeightsList(), newWeightsExport(),
		newWeightsPin(), newWeightsRemove())
}

func newWeightsList() *cobra.Command {
	var asJSON bool
	read := func(ctx context.Context, p *topics.Pipeline) ([]protocol.Finished, error) { return p.Versions(ctx) }
	write := func(w io.Writer, versions []protocol.Finished) error {
		if asJSON {
			return screen.WriteVersionsJSON(w, versions)
		}
		return screen.WriteVersions(w, versions)
	}
	cmd := newList(&cobra.Command{
		Use: "list -c FILE", Short: "List the finished versions",
		Long: "List the finished versions. The column offered has yes, no or pinned. Subscribers get as " + protocol.Latest +
			" the pinned version, or\nwithout one the last version with yes.",
		Example: "  stagewise weights list -c digits.yaml",
	}, nil, read, write)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a line of JSON for each version: offered, written, manifest")
	return cmd
}

func newWeightsPin() *cobra.Command {
	var (
		from configFlags
		off  bool
	)
	cmd := &cobra.Command{
		Use: "pin -c FILE (VERSION | --off)", Short: "Choose the version that subscribers get as latest, and print its number",
		Args: cobra.MaximumNArgs(1),
		Long: "Pin a version, given by its version number, its run id, or " + protocol.Latest + ": subscribers get it as " +
			protocol.Latest + " until another\nversion is pinned, regardless of later versions. Pin an earlier version to roll back. " +
			"With --off, they get\nthe newest offered version again. Training still continues from the newest version. keep " +
			"does not remove a\npinned version.",
		Example: "  stagewise weights pin -c digits.yaml 1\n" +
			"  stagewise weights pin -c digits.yaml --off",
		RunE: from.onPipeline(func(_ *config.Config, args []string) error {
			if off == (len(args) == 1) {
				return errors.New("expected a version or --off; see weights list")
			}
			return nil
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			if off {
				return unpin(cmd, log, c.Name)
			}
			pinned, err := admin.Pin(cmd.Context(), topics.Open(log, c.Name, nil), args[0])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), pinned)
			}
			return err
		}),
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&off, "off", false, "unpin the pinned version")
	return cmd
}

// unpin pins no version, and prints the number of the version that subscribers get then.
func unpin(cmd *cobra.Command, log *kafkalog.Log, name string) error {
	before, latest, err := admin.Unpin(cmd.Context(), topics.Open(log, name, nil))
	if err != nil {
		return err
	}
	if before == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no version was pinned")
	}
	if latest == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no version is offered: subscribers get none as "+protocol.Latest)
		return nil
	}
	fmt.Fprintln(cmd.OutOrStdout(), latest)
	return nil
}

func newWeightsRemove() *cobra.Command {
	var (
		from       configFlags
		evenLatest bool
	)
	cmd := &cobra.Command{
		Use: "remove -c FILE VERSION…", Short: "Remove versions from the topic, and print their numbers",
		Long: "Remove versions, given by version number, run id, or " + protocol.Latest +
			". They can no longer be read,\nand their numbers are not reused. Either all are removed or none: a version that " +
			"subscribers get as " + protocol.Latest +
			",\nor would get without the pin, requires --even-latest, and a version that an unfinished run needs stays until\nthat " +
			"run ends.",
		Example: "  stagewise weights remove -c digits.yaml 1",
		RunE: from.onPipeline(func(_ *config.Config, args []string) error {
			if len(args) == 0 {
				return errors.New("expected versions; see weights list")
			}
			return nil
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			removed, err := admin.RemoveVersions(cmd.Context(), topics.Open(log, c.Name, nil), args, evenLatest)
			printEach(cmd, removed)
			return err
		}),
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&evenLatest, "even-latest", false, "also remove a pinned version, or the newest offered one")
	return cmd
}

// exportFlags are the flags of weights export.
type exportFlags struct {
	from                               configFlags
	version, modelFile, output, format string
}

func newWeightsExport() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use: "export (-c FILE | --model FILE) -o FILE", Short: "Export a version as a model file for predict, or in a format of other " +
			"programs", Args: cobra.NoArgs,
		Long: "Export a version of a pipeline, or a model file, in one of these formats:\n\n" + formats(),
		Example: "  stagewise weights export -c digits.yaml -o digits.model\n" +
			"  stagewise weights export -c digits.yaml --version 7 -o digits." + model.ExportNames()[1] + "\n" +
			"  stagewise weights export --model digits.model -o digits." + model.ExportNames()[1],
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.from.add(cmd)
	delete(cmd.Flags().Lookup("config").Annotations, cobra.BashCompOneRequiredFlag) // --model may take its place
	cmd.Flags().StringVar(&f.version, "version", "", "the `version` to export: a version number, a run id, or "+protocol.Latest+
		", the pinned version or else the newest offered one (default "+protocol.Latest+")")
	cmd.Flags().StringVar(&f.modelFile, "model", "", "export the model in a `file`, without connecting to brokers")
	cmd.Flags().StringVar(&f.format, "format", "", "output `format`: "+strings.Join(model.ExportNames(), ", ")+
		"; default: by the extension of the file, or else "+model.ExportNames()[0])
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write the model to a `file` (-: standard output)")
	markRequired(cmd, "output")
	must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(model.ExportNames(), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// formats returns the formats as lines of a help text.
func formats() string {
	var lines []string
	for _, f := range model.Exports() {
		lines = append(lines, fmt.Sprintf("  %-13s%s", f.Name, f.Doc))
	}
	return strings.Join(lines, "\n")
}

// check returns the format, or what is wrong with the flags.
func (f *exportFlags) check() (model.Export, error) {
	format, ok := model.ExportNamed(cmp.Or(f.format, model.ExportOfFile(f.output)))
	switch {
	case !ok:
		names, last := model.ExportNames(), len(model.ExportNames())-1
		return format, option.Problem{Key: "--format", Value: f.format, Want: strings.Join(names[:last], ", ") + " or " + names[last]}
	case f.from.file == "" && f.modelFile == "":
		return format, errors.New("expected -c FILE, or --model FILE")
	case f.from.file != "" && f.modelFile != "":
		return format, errors.New("expected either -c FILE or --model FILE, not both")
	case f.modelFile != "" && f.version != "":
		return format, option.Problem{Key: "--version", Value: f.version, Want: "no value: --model selects the version"}
	case f.modelFile != "" && len(f.from.set) > 0:
		return format, errors.New("--set: expected -c FILE: --set overrides its keys")
	}
	return format, screen.CheckWritable(f.output)
}

func (f *exportFlags) run(cmd *cobra.Command) error {
	format, err := f.check()
	if err != nil {
		return err
	}
	if f.modelFile != "" {
		m, err := readModel(f.modelFile)
		if err != nil {
			return failed(err)
		}
		return failed(f.write(cmd, format, m))
	}
	c, err := f.from.load()
	if err != nil {
		return err
	}
	return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
		m, err := topics.Open(log, c.Name, nil).Model(cmd.Context(), cmp.Or(f.version, protocol.Latest))
		if err != nil {
			return err
		}
		return f.write(cmd, format, m)
	}))
}

func (f *exportFlags) write(cmd *cobra.Command, format model.Export, m *model.Model) error {
	return screen.Write(f.output, cmd.OutOrStdout(), func(w io.Writer) error { return format.Write(w, m) })
}
