package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the program, its revision, and the Go version that built it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, revision := build()
			if revision != "" {
				revision = " " + revision
			}
			fmt.Fprintf(cmd.OutOrStdout(), "stagewise %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// build returns the version of this program, and the revision that it was built from; empty if that is not known.
func build() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)", ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return info.Main.Version, revision
}
