package preview

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

const (
	// costRows are the rows that a cost is said of.
	costRows = 1_000_000
	// costClasses are the classes that it is said of if nothing says how many there are.
	costClasses = 10
)

// Nanoseconds of a core: docs/scaling.md has the runs that they are fitted to.
const (
	perValue    = 10    // for each value of a row: decoded, written, read, surveyed
	perMoment   = 0.014 // for each value of a p × p matrix that a row is added to
	perInput    = 0.027 // for each input of each of a row's features, which is a product of both
	perFeature  = 0.2   // for each feature of a row in a visit
	perGradient = 0.036 // for each feature, class and visit: the score and the cross moment
	// perPartition is for each partition and stage, on a disk: separate sums and their merges, and three requests.
	perPartition = 500_000
)

// cost is what a run writes and computes, by the formulas of docs/scaling.md.
type cost struct {
	grams     int64   // bytes of Gram matrices that a worker with whole groups of partitions writes
	gradients int64   // bytes of sums that it writes in all visits
	residuals int64   // bytes of scores and residuals
	seconds   float64 // of one core, beside those of a run without rows
}

// costOf returns the cost of so many rows in stages with so many columns each. The rows have width features, which become inputs, and k
// classes. If pca is set, the inputs are principal components.
func costOf(rows int64, list []schemas.Stage, columns []int, width, inputs int, pca bool, k int) (c cost) {
	row := perValue * float64(width) // nanoseconds
	if pca {
		row += perMoment * float64(width) * float64(width)
	}
	for t, s := range list {
		p, visits := int64(columns[t]), int64(s.Passes+1)
		c.grams += 4 * p * p
		c.gradients += 8 * p * int64(k) * visits
		c.residuals += rows * 8 * int64(k)
		part := float64(solve.GramRows(s, columns[t], false, rows)) / float64(rows) // that the Gram matrix is of
		row += float64(p) * (perMoment*float64(p)*part + perInput*float64(inputs) + (perFeature+perGradient*float64(k))*float64(visits))
	}
	c.seconds = row * float64(rows) / 1e9
	return c
}

// costs returns lines that say what a run costs; none if a formula for its stages is not known: those of sparse rows and of trees cost
// what occurs in their rows.
func costs(c *config.Config, width int) []string {
	list, columns := c.Job().Stages, columnsOf(c, width)
	if c.Examples.Text != "" || len(columns) == 0 || slices.ContainsFunc(list, costsWhatOccurs) {
		return nil
	}
	k, of := len(c.Examples.Classes)+len(c.Examples.Targets), ""
	if k == 0 {
		k, of = costClasses, fmt.Sprintf(" of %d classes", costClasses)
	}
	run, names := costOf(costRows, list, columns, width, inputsOf(c, width), c.Prepare.PCA > 0, k), protocol.TopicsOf(c.Name)
	lines := []string{
		fmt.Sprintf("a worker writes %s of Gram matrices and %s of gradients%s to %s", screen.Amount(run.grams), screen.Amount(run.gradients), of,
			names.Statistics),
		fmt.Sprintf("a million rows write %s to %s", screen.Amount(run.residuals), names.Residuals),
	}
	if width > 0 && !slices.ContainsFunc(list, func(s schemas.Stage) bool { return stages.Learns(s.Features) }) {
		lines[1] += fmt.Sprintf(", and take about %s core-seconds", humanize.Comma(int64(math.Ceil(run.seconds))))
		if n := c.Job().Examples.Partitions; n > 0 {
			if more := perPartition * float64(n*len(list)) / 1e9; more >= 1 {
				lines[1] += fmt.Sprintf("; %s partitions add about %s", humanize.Comma(int64(n)), humanize.Comma(int64(math.Ceil(more))))
			}
		}
	}
	return lines
}

// costsWhatOccurs reports whether the cost of a stage depends on what occurs in its rows.
func costsWhatOccurs(s schemas.Stage) bool {
	return stages.OnlySparse(s.Features) || stages.Grown(s.Features)
}

// inputsOf returns how many inputs rows of width features become.
func inputsOf(c *config.Config, width int) int {
	if c.Prepare.PCA > 0 {
		return c.Prepare.PCA
	}
	return width
}

// columnsOf returns how many columns each stage has; none if the number of features, which is not known, decides that. width is that
// number, or 0.
func columnsOf(c *config.Config, width int) (columns []int) {
	for t, s := range c.Job().Stages {
		p := cmp.Or(s.Features.Size, inputsOf(c, width))
		if p == 0 {
			return nil
		}
		if t == 0 && c.Intercept {
			p++
		}
		columns = append(columns, p)
	}
	return columns
}
