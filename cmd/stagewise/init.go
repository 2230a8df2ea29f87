package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/draft"
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/profile"
)

func newInit() *cobra.Command {
	var (
		output, label, name string
		force, header       bool
	)
	o := ingest.Defaults()
	cmd := &cobra.Command{
		Use: "init FILE --label COLUMN", Short: "Write a commented configuration for a table", Args: exactly("FILE"),
		Long: "Read a table, describe its columns, and write a configuration that trains unchanged: the label or the number\nto " +
			"predict, categorical columns, dropped columns with the reasons, and words for missing values.",
		Example: "  stagewise init flowers.csv --label kind\n  stagewise train -c stagewise.yaml --model flowers.model",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Label = layout.Column(label); cmd.Flags().Changed("header") {
				o.Header = &header
			}
			if err := errors.Join(screen.CheckWritable(output), checkAbsent(output, force), checkDraft(args[0], o)); err != nil {
				return err
			}
			table := profile.NewTable(o.MissingValues)
			if err := ingest.View(cmd.Context(), args[0], o, table); err != nil {
				return failed(err)
			}
			d, err := draft.Of(args[0], output, o, table)
			if err != nil {
				return err
			}
			if name == "" {
				name = draft.Name(args[0])
			}
			from := strings.Join([]string{"stagewise init", args[0], "--label", label}, " ")
			err = screen.Write(output, cmd.OutOrStdout(), func(w io.Writer) error {
				_, err := io.WriteString(w, d.Configuration(name, from))
				return err
			})
			if err != nil {
				return failed(err)
			}
			if output == screen.StandardOutput {
				return d.Describe(cmd.ErrOrStderr())
			}
			if err := d.Describe(cmd.OutOrStdout()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nwrote %s; next: stagewise train -c %[1]s --model %s.model\n", output, name)
			return err
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "the `column` to predict, by its name or its number from 0")
	cmd.Flags().StringVarP(&output, "output", "o", "stagewise.yaml", "write the configuration to a `file` (-: standard output)")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	cmd.Flags().StringVar(&name, "name", "", "`name` of the pipeline; default: the name of the file")
	cmd.Flags().StringVar(&o.Format, "format", "", "`format` of the file; default: detected from its name or first bytes")
	cmd.Flags().StringVar(&o.Delimiter, "delimiter", "", "field delimiter `character`; default: detected from the first rows")
	cmd.Flags().StringVar(&o.Encoding, "encoding", "", "the `name` of the text encoding, such as latin-1")
	cmd.Flags().BoolVar(&header, "header", false, "the first row has the column names; default: true if --label is a name")
	cmd.Flags().StringSliceVar(&o.MissingValues, "missing-values", o.MissingValues, "`words` for a missing value, in addition to an "+
		"empty cell")
	return cmd
}

// checkAbsent returns an error if a file is there that would be lost.
func checkAbsent(path string, force bool) error {
	if path == screen.StandardOutput || force {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("write %s: it exists: expected --force, or another file with -o", path)
	}
	return nil
}

// checkDraft returns an error if no configuration can name the file, or for a flag that can't be right.
func checkDraft(file string, o ingest.Options) error {
	if file == ingest.StandardInput {
		return errors.New("expected a file: a configuration that names the standard input can be used once")
	}
	for _, p := range o.Check() {
		p.Key = "--" + strings.ReplaceAll(p.Key, "_", "-")
		return p
	}
	return nil
}
