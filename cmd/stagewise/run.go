package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
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
		Use: "run -c FILE", Short: "Make a version after the other, for as long as examples arrive", Args: cobra.NoArgs,
		Example: `  stagewise run -c clicks.yaml                                  a service: it updates the model as retrain says
  stagewise run -c clicks.yaml --until end --report report.json  learn all that the topic has now, and stop`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := errors.Join(show.check(), checkWritable(report), checkPage("--page", pageAt), c.CheckStages()); err != nil {
				return err
			}
			for key, values := range map[string][]string{"examples.from": c.Examples.From, "examples.to": c.Examples.To} {
				if len(values) > 0 {
					return schemas.Problem{Key: key, Value: strings.Join(values, ", "), Want: "no value for run: retrain.window says what a version learns"}
				}
			}
			if a := schemas.Augment(c.Examples.Augment); a.Rows() > 1 {
				return schemas.Problem{Key: "examples.augment", Value: fmt.Sprintf("%d rows for each image", a.Rows()), Want: "no value for run: updates do not make rows of images yet. train does"}
			}
			if c.Average > 1 {
				return schemas.Problem{Key: "average", Value: strconv.Itoa(c.Average), Want: "1 for run: updates do not average models yet. train does"}
			}
			if until != "" && until != untilEnd {
				return fmt.Errorf("--until: %s: expected end", until)
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			blas.UseForSolves()
			remove, err := spool(cmd, &c.Examples)
			if err != nil {
				return failed(err)
			}
			defer remove()
			recorder, finish := show.recorder(c.Name, cmd.ErrOrStderr())
			defer finish()
			if until == "" { // a service
				var stop func()
				if recorder, stop, err = withMetrics(cmd.Context(), c, roleRun, recorder); err != nil {
					return err
				}
				defer stop()
			}
			return failed(withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				if show.onScreen() {
					describe(cmd.ErrOrStderr(), c, blas)
				}
				unshow, err := showPage(cmd.Context(), log, c, "--page", pageAt, recorder)
				if err != nil {
					return err
				}
				defer func() { _ = unshow() }() // the versions are what counts
				result, err := pipeline.Retrain(cmd.Context(), log, blas, c.Job(), until == untilEnd, recorder)
				if finish(); err != nil {
					return err
				}
				if show.onScreen() {
					concludeChain(cmd.ErrOrStderr(), result)
				}
				return writeRetraining(report, cmd.OutOrStdout(), result, c)
			}))
		},
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringVar(&until, "until", "", "`end`: stop when all that the examples topic has now is learnt")
	cmd.Flags().StringVar(&report, "report", "", "write the report as JSON to a `file` (-: standard output)")
	addPage(cmd, &pageAt)
	return cmd
}

// concludeChain writes what a chain has learnt.
func concludeChain(w io.Writer, r *pipeline.Retraining) {
	if r.PrequentialError == nil {
		fmt.Fprintf(w, "%s of %s rows in %.1f s\n", english.Plural(len(r.Updates), "version", ""), humanize.Comma(r.Rows), r.Seconds)
		return
	}
	fmt.Fprintf(w, "%s of %s rows in %.1f s, %s rows a second: %.2f %% were predicted wrong before they were learnt\n",
		english.Plural(len(r.Updates), "version", ""), humanize.Comma(r.Rows), r.Seconds, humanize.Comma(int64(r.RowsPerSecond)), *r.PrequentialError)
}

// writeRetraining writes the report of a chain as JSON. An empty path stands for no file.
func writeRetraining(path string, stdout io.Writer, r *pipeline.Retraining, c *config.Config) error {
	if path == "" {
		return nil
	}
	return write(path, stdout, func(w io.Writer) error {
		text, err := json.Marshal(struct {
			*pipeline.Retraining
			Configuration *config.Config `json:"configuration"`
		}{r, c})
		if err != nil {
			return err
		}
		_, err = w.Write(append(layOut(text), '\n'))
		return err
	})
}
