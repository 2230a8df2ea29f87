package compare

import (
	"fmt"
	"math"
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
	Run    int // its number, from 0, which decides colour and dashes
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
	maxRuns     = 8 // runs with a colour of their own; later ones begin again
)

// values are the points of one run before they are scaled.
type values struct {
	run    int
	title  string
	xs, ys []float64
}

// newChart scales values into a diagram; ok is false if there are none. fixed says that both axes go from 0 to 1.
func newChart(id, title, x, y string, all []values, fixed bool) (c chart, ok bool) {
	c = chart{ID: id, Title: title, X: x, Y: y}
	least, most, last := math.Inf(1), 0.0, 1.0
	for _, v := range all {
		for i := range v.xs {
			last, least, most = max(last, v.xs[i]), min(least, v.ys[i]), max(most, v.ys[i])
		}
		ok = ok || len(v.xs) > 0
	}
	if !ok {
		return c, false
	}
	first := min(1.0, last-1)
	if fixed {
		first, last, least, most = 0, 1, 0, 1
	}
	if most == 0 {
		most = 1
	}
	c.Log = !fixed && least > 0 && most > 20*least
	scale := func(y float64) float64 { return y / most }
	if c.Log {
		low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
		scale = func(y float64) float64 { return (math.Log10(y) - low) / max(high-low, 1) }
		for e := low; e <= high; e++ {
			c.YTicks = append(c.YTicks, tick{at(bottom, top, scale(math.Pow(10, e))), strconv.FormatFloat(math.Pow(10, e), 'g', -1, 64)})
		}
	} else {
		for i := range 5 {
			y := most * float64(i) / 4
			c.YTicks = append(c.YTicks, tick{at(bottom, top, scale(y)), strconv.FormatFloat(y, 'g', 3, 64)})
		}
	}
	across := func(x float64) float64 { return at(left, right, (x-first)/max(last-first, 1e-9)) }
	if fixed {
		for i := range 5 {
			c.XTicks = append(c.XTicks, tick{across(float64(i) / 4), strconv.FormatFloat(float64(i)/4, 'g', 3, 64)})
		}
		c.Diagonal = fmt.Sprintf("%d,%d %d,%d", left, bottom, right, top)
	} else {
		step := math.Ceil((last - first + 1) / 10)
		for x := first; x <= last; x += step {
			c.XTicks = append(c.XTicks, tick{across(x), strconv.FormatFloat(x, 'g', -1, 64)})
		}
	}
	for _, v := range all {
		l := line{Run: v.run % maxRuns, Title: v.title}
		var points []string
		for i := range v.xs {
			m := mark{X: across(v.xs[i]), Y: at(bottom, top, scale(v.ys[i])), Across: strconv.FormatFloat(v.xs[i], 'g', 4, 64), Down: number(v.ys[i])}
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
