package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

func newCheck() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "check -c FILE", Short: "Show what train would do, or what is wrong with the configuration", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := c.CheckStages(); err != nil {
				return err
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			return failed(check(cmd.OutOrStdout(), c, blas))
		},
	}
	from.add(cmd)
	return cmd
}

// check writes what train would do. It returns an error for each file that is missing. It does not connect to brokers.
func check(w io.Writer, c *config.Config, blas *kernel.BLAS) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "pipeline\t%s on %s\n", c.Name, brokers(c))
	fmt.Fprintf(table, "arithmetic\t%s, %s\n", blas.Name(), blas.Vector())
	if hint := blas.Hint(); hint != "" {
		fmt.Fprintf(table, "\t%s\n", hint)
	}
	memory := "half of the free memory"
	if c.Memory > 0 {
		memory = c.Memory.String()
	}
	fmt.Fprintf(table, "memory\t%s\n", memory)

	train, missingTrain := checkFiles("train", c.Examples.Train)
	test, missingTest := checkFiles("test", c.Examples.Test)
	files := slices.Concat(train, test)
	if len(files) == 0 {
		files = []string{"none; train uses the examples on the topic"}
	}
	section(table, "files", files)
	var topics []string
	for _, t := range pipeline.Topics(c.Job()) {
		topics = append(topics, fmt.Sprintf("%s (%d)", t.Name, t.Partitions))
	}
	section(table, "topics", topics)
	section(table, "prepare", []string{preparation(c.Prepare)})
	if err := table.Flush(); err != nil {
		return err
	}

	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "\nstage\tfeatures\tlink\tpasses\tridge\tmethod\tgram rows\tstop")
	first := 1
	for _, s := range c.Stages {
		fmt.Fprintf(rows, "%s\t%s\t%s\t%d\t%v\t%s\t%s\t%s\n",
			numbers(first, s.Repeat), features(s.Stage), s.Link, s.Passes, s.Ridge, s.Method, s.GramRows, stop(s.Stop))
		first += s.Repeat
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	return errors.Join(slices.Concat(missingTrain, missingTest)...)
}

// section writes a title with its lines: the title stands before the first.
func section(w io.Writer, title string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s\t%s\n", title, line)
		title = ""
	}
}

// checkFiles returns a line for each file of a split, and an error for each file that can't be read.
func checkFiles(split string, files []string) (lines []string, missing []error) {
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			missing = append(missing, fmt.Errorf("examples.%s: %w", split, err))
			lines = append(lines, fmt.Sprintf("%s: %s (missing)", split, file))
		case info.IsDir():
			missing = append(missing, fmt.Errorf("examples.%s: %s is a directory", split, file))
			lines = append(lines, fmt.Sprintf("%s: %s (a directory)", split, file))
		default:
			lines = append(lines, fmt.Sprintf("%s: %s (%s)", split, file, humanize.Bytes(uint64(info.Size()))))
		}
	}
	return lines, missing
}

func preparation(p schemas.Prepare) string {
	text := "scale " + p.Scale
	if p.PCA > 0 {
		text += fmt.Sprintf(", %d principal components", p.PCA)
	}
	return text
}

// numbers returns the range of the stages that one entry of the configuration stands for.
func numbers(first, count int) string {
	if count == 1 {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, first+count-1)
}

func features(s schemas.Stage) string {
	text := stages.Describe(s.Features)
	if s.Scores {
		text += " and scores"
	}
	return text
}

func stop(s *schemas.Stop) string {
	if s == nil {
		return none
	}
	return fmt.Sprintf("%s, patience %d", s.Split, s.Patience)
}
