package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/export"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

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
			"  stagewise weights export -c digits.yaml --version 7 -o digits." + export.Names()[1] + "\n" +
			"  stagewise weights export --model digits.model -o digits." + export.Names()[1],
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.from.add(cmd)
	delete(cmd.Flags().Lookup("config").Annotations, cobra.BashCompOneRequiredFlag) // --model may take its place
	cmd.Flags().StringVar(&f.version, "version", "", "the `version` to export: a version number, a run id, or "+protocol.Latest+
		", the pinned version or else the newest offered one (default "+protocol.Latest+")")
	cmd.Flags().StringVar(&f.modelFile, "model", "", "export the model in a `file`, without connecting to brokers")
	cmd.Flags().StringVar(&f.format, "format", "", "output `format`: "+strings.Join(export.Names(), ", ")+
		"; default: by the extension of the file, or else "+export.Names()[0])
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write the model to a `file` (-: standard output)")
	markRequired(cmd, "output")
	must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(export.Names(), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// formats returns the formats as lines of a help text.
func formats() string {
	var lines []string
	for _, f := range export.All() {
		lines = append(lines, fmt.Sprintf("  %-13s%s", f.Name, f.Doc))
	}
	return strings.Join(lines, "\n")
}

// check returns the format, or what is wrong with the flags.
func (f *exportFlags) check() (export.Format, error) {
	format, ok := export.Named(cmp.Or(f.format, export.OfFile(f.output)))
	switch {
	case !ok:
		names, last := export.Names(), len(export.Names())-1
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
	return format, artifact.CheckWritable(f.output)
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

func (f *exportFlags) write(cmd *cobra.Command, format export.Format, m *model.Model) error {
	return artifact.Write(f.output, cmd.OutOrStdout(), func(w io.Writer) error { return format.Write(w, m) })
}
