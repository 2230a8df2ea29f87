package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// untilEnd is the value of --until that ends a chain at the topic's end.
const untilEnd = "end"

func newRun() *cobra.Command {
	var (
		from   configFlags
		show   displayFlags
		until  string
		report string
		pageAt string
	)
	cmd := &cobra.Command{
		Use: "run -c FILE", Short: "Retrain continuously as examples arrive", Args: cobra.NoArgs,
		Example: `  stagewise run -c clicks.yaml                                  a service: update the model as configured under retrain
  stagewise run -c clicks.yaml --until end --report report.json  learn up to the current end of the topic, and stop`,
		Long: "Retrain continuously as examples arrive. run also ingests the files and the topic\nexamples.from_topic: it needs no " +
			"other process.",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			if err := errors.Join(show.check(), screen.CheckWritable(report), checkPage("--page", pageAt)); err != nil {
				return err
			}
			for key, values := range map[string][]string{"examples.from": c.Examples.From, "examples.to": c.Examples.To} {
				if len(values) > 0 {
					return option.Problem{Key: key, Value: strings.Join(values, ", "), Want: "no value for run: retrain.window " +
						"selects the rows of a version"}
				}
			}
			if a := c.Examples.Augment; a.Rows() > 1 {
				return option.Problem{Key: "examples.augment", Value: fmt.Sprintf("%d rows for each image", a.Rows()),
					Want: "no value for run: run supports neither augmentation nor averaging, train does"}
			}
			if c.Average > 1 {
				return option.Problem{Key: "average", Value: strconv.Itoa(c.Average), Want: "1 for run: run supports neither " +
					"augmentation nor averaging, train does"}
			}
			if problems := c.CheckChained(); len(problems) > 0 {
				return problems[0]
			}
			if until != "" && until != untilEnd {
				return fmt.Errorf("--until: %s: expected end", until)
			}
			blas, err := openSolverBLAS()
			if err != nil {
				return err
			}
			remove, err := spool(cmd, &c.Examples)
			if err != nil {
				return failed(err)
			}
			defer remove()
			role := protocol.RoleRun
			if until != "" {
				role = "" // it ends by itself
			}
			return show.session(cmd, c, role, withLog, func(log *kafkalog.Log, recorder event.Recorder, finish func()) error {
				if show.onScreen() {
					screen.Describe(cmd.ErrOrStderr(), c, blas)
				}
				unshow, err := showPage(cmd.Context(), log, c, "--page", pageAt, recorder)
				if err != nil {
					return err
				}
				defer func() { _ = unshow() }() // the versions are what counts
				if err := createFollowed(cmd.Context(), c, log); err != nil {
					return err
				}
				result, err := pipeline.Retrain(cmd.Context(), log, blas, c.Job(), until == untilEnd, recorder)
				if finish(); err != nil {
					return err
				}
				if show.onScreen() {
					screen.ConcludeChain(cmd.ErrOrStderr(), result)
				}
				return screen.WriteRetraining(report, cmd.OutOrStdout(), result, c)
			})
		}),
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringVar(&until, "until", "", "`end`: stop at the current end of the examples topic and of examples.from_topic")
	cmd.Flags().StringVar(&report, "report", "", "write the report as JSON to a `file` (-: standard output)")
	addPage(cmd, &pageAt)
	return cmd
}
