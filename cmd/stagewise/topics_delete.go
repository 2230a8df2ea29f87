package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/deletion"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// deleteFlags are the flags of topics delete.
type deleteFlags struct {
	from       configFlags
	yes, force bool
}

func newTopicsDelete() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use: "delete -c FILE", Short: "Delete the topics, with all examples and weights, after confirmation", Args: cobra.NoArgs,
		Long: "Show the existing topics and their numbers of messages, ask for confirmation, and delete the topics.\nNothing is " +
			"deleted while a process works on the pipeline: it would use deleted topics or recreate\nthem. Read-only processes, " +
			"such as serve, page and subscribers, do not prevent deletion.",
		Example: "  stagewise topics delete -c digits.yaml\n" +
			"  stagewise topics delete -c digits.yaml --yes",
		RunE: f.from.run(f.run),
	}
	f.from.add(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "delete without confirmation")
	cmd.Flags().BoolVar(&f.force, "force", false, "delete even while processes work on the pipeline")
	return cmd
}

func (f *deleteFlags) run(cmd *cobra.Command, _ []string, c *config.Config) error {
	return failed(withLog(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
		found, err := deletion.Existing(cmd.Context(), log, c.Name, topicNames(c))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s has no topics\n", c.Name)
			return nil
		}
		if !f.force {
			if err := deletion.CheckNobodyWorks(cmd.Context(), log, c.Name, c.Brokers); err != nil {
				return err
			}
		}
		var names []string
		for _, t := range found {
			names = append(names, t.Name)
		}
		if !f.yes {
			if err := deletion.Ask(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), found); err != nil {
				return err
			}
		}
		if err := log.Delete(cmd.Context(), names...); err != nil {
			return err
		}
		for _, name := range names {
			fmt.Fprintf(cmd.OutOrStdout(), "%s no longer exists\n", name)
		}
		return nil
	}))
}
