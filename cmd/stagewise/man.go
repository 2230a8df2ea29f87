package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
)

// newMan returns the command for packagers; make release runs it.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Args: exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return failed(err)
			}
			return failed(writeManuals(args[0], "", cmd.Root()))
		},
	}
}

// writeManuals writes the manual pages of a command and of those below it into a folder, in the macros of man(7).
func writeManuals(folder, parent string, cmd *cobra.Command) error {
	text := strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'", "\n\n", "\n.PP\n").Replace
	name, also, examples := strings.ReplaceAll(cmd.CommandPath(), " ", "-"), parent, ""
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			also += "\n.BR " + text(name+"-"+below.Name()) + " (1)"
			if err := writeManuals(folder, "\n.BR "+text(name)+" (1)", below); err != nil {
				return err
			}
		}
	}
	if cmd.Example != "" {
		examples = "\n.SH EXAMPLES\n.EX\n" + text(cmd.Example) + "\n.EE"
	}
	cmd.InitDefaultHelpFlag()
	return screen.Write(filepath.Join(folder, name+".1"), nil, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n.SH DESCRIPTION\n%s\n"+
			".SH OPTIONS\n.EX\n%s.EE%s\n.SH SEE ALSO%s\n", strings.ToUpper(name), text(name), text(cmd.Short), text(cmd.UseLine()),
			text(cmp.Or(cmd.Long, cmd.Short)), text(cmd.LocalFlags().FlagUsages()), examples, also)
		return err
	})
}
