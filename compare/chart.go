package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// chart is a diagram with a line for each run that has values. Its numbers are in a table too.
type chart struct {
	ID, Title, X, Y string
	Lines           []line
	XTicks, YTicks  []tick
	Diagonal        string // points of the line y = x; "": there is none
	Log             bool   // the y axis is logarithmic
}

// line is the values of a run.
type line struct {
	Run    int // of its colour and dashes
	Title  string
	Points string // of the line, for SVG
	Marks  []mark
}

// mark is a point of a line, in the diagram and as numbers.
type mark struct {
	X, Y         float64 // in the diagram
	Across, Down string  // its values
}

// tick is a place on an axis.
type tick struct {
	At   float64
	Text string
}

// The area of a diagram within its drawing, which is 640 × 300.
const (
	left, right = 64, 624
	top, bottom = 32, 256
	maxRuns     = 8 // runs with a colour of their own
)

// colourOf returns the number of the colour of a run, given its place among all: runs behind the first few share the last one.
func colourOf(place int) int { return min(place, maxRuns) }

// values are the points of one run before they are scaled.
type values struct {
	run    int
	title  string
	xs, ys []float64
}

// newChart scales values into a diagram; ok is false if no run has two, as a point alone says no more than the table.
// fixed says that both axes go from 0 to 1.
func newChart(id, title, x, y string, all []values, fixed bool) (c chart, ok bool) {
	c = chart{ID: id, Title: title, X: x, Y: y}
	least, most, last := math.Inf(1), 0.0, 1.0
	for _, v := range all {
		for i := range v.xs {
			last, least, most = max(last, v.xs[i]), min(least, v.ys[i]), max(most, v.ys[i])
		}
		ok = ok || len(v.xs) > 1 || fixed && len(v.xs) > 0
	}
	if !ok {
		return c, false
	}
	if fixed {
		least, most = 0, 1
	}
	if most == 0 {
		most = 1
	}
	c.Log = !fixed && least > 0 && most > 20*least
	ys := linearTicks(0, most, 5)
	scale := func(y float64) float64 { return y / ys[len(ys)-1] }
	if c.Log {
		ys = logTicks(least, most)
		low, high := math.Log10(ys[0]), math.Log10(ys[len(ys)-1])
		scale = func(y float64) float64 { return (math.Log10(y) - low) / (high - low) }
	}
	for _, y := range ys {
		c.YTicks = append(c.YTicks, tick{at(bottom, top, scale(y)), tickText(y)})
	}
	first, xs := 1.0, []float64{0, 0.25, 0.5, 0.75, 1}
	if fixed {
		first, last = 0, 1
		c.Diagonal = fmt.Sprintf("%d,%d %d,%d", left, bottom, right, top)
	} else {
		step := max(roundStep(last-first, 10), 1)
		xs = []float64{first}
		for x := step; x <= last; x += step {
			if x > first {
				xs = append(xs, x)
			}
		}
	}
	across := func(x float64) float64 { return at(left, right, (x-first)/max(last-first, 1e-9)) }
	for _, x := range xs {
		c.XTicks = append(c.XTicks, tick{across(x), tickText(x)})
	}
	for _, v := range slices.Backward(all) { // the first, which is the best, is drawn over the others
		l := line{Run: colourOf(v.run), Title: v.title}
		var points []string
		for i := range v.xs {
			m := mark{X: across(v.xs[i]), Y: at(bottom, top, scale(v.ys[i])), Across: strconv.FormatFloat(v.xs[i], 'g', 4, 64),
				Down: number(v.ys[i])}
			l.Marks = append(l.Marks, m)
			points = append(points, fmt.Sprintf("%.1f,%.1f", m.X, m.Y))
		}
		if l.Points = strings.Join(points, " "); l.Points != "" {
			c.Lines = append(c.Lines, l)
		}
	}
	return c, true
}

// at returns the place between two ends, rounded to a tenth.
func at(from, to int, part float64) float64 {
	return math.Round(10*(float64(from)+part*float64(to-from))) / 10
}
