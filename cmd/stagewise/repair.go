package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

func newRepair() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "repair -c FILE", Short: "Repair a damaged log of the embedded broker", Args: cobra.NoArgs,
		Long: "Repair the log of the embedded broker in data_dir. Intact batches of messages keep their offsets.\nThe offsets of " +
			"damaged batches are printed and stay empty: no other message gets them. Copy data_dir\nfirst if the disk may become " +
			"readable later.",
		Example: "  stagewise repair -c digits.yaml",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			if len(c.Brokers) > 0 {
				return option.Problem{Key: "brokers", Value: strings.Join(c.Brokers, ", "),
					Want: "no value: repair is for the files of the embedded broker"}
			}
			repaired, err := kafkalog.Repair(cmd.Context(), c.DataDir)
			screen.WriteRepaired(cmd.OutOrStdout(), repaired)
			if err != nil {
				return failed(fmt.Errorf("repair the log in %s: %w", c.DataDir, err))
			}
			if len(repaired) == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "the log in %s is intact\n", c.DataDir)
			}
			return nil
		}),
	}
	from.add(cmd)
	return cmd
}
