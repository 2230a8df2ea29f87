// Command stream draws the report of a chain of versions, as stagewise run --report writes it: the error of rows before they were learnt,
// by the number of rows, a tick for each version, and the alarms. It writes an SVG to the standard output.
//
//	stream report.json > figure.svg
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// report is what the figure needs of a report.
type report struct {
	Updates []update `json:"updates"`
}

type update struct {
	Rows  int64    `json:"rows"`
	Error *float64 `json:"prequential_error"` // percent
	Drift bool     `json:"drift"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("expected the name of a report")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	figure, err := draw(r)
	if err == nil {
		_, err = io.WriteString(w, figure)
	}
	return err
}

// Sizes of the figure, in pixels.
const (
	width, height = 720, 340
	left, right   = 56, 40
	top, bottom   = 48, 48
)

// roundPercents returns the values of the axis of errors.
func roundPercents() []float64 { return []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100} }

// limits returns the closest of them around the errors of a report.
func limits(r report) (low, high float64) {
	least, most := 100.0, 0.0
	for _, u := range r.Updates {
		if u.Error != nil {
			least, most = min(least, *u.Error), max(most, *u.Error)
		}
	}
	low, high = roundPercents()[0], 100
	for _, p := range roundPercents() {
		if p <= least && p < high {
			low = p
		}
	}
	for _, p := range slices.Backward(roundPercents()) {
		if p >= most && p > low {
			high = p
		}
	}
	return low, high
}

// roundStep returns 1, 2 or 5 times a power of ten of which rows have no more than seven.
func roundStep(rows int64) int64 {
	for step := int64(1); ; step *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if rows/(digit*step) <= 7 {
				return digit * step
			}
		}
	}
}

// draw returns the figure as SVG.
func draw(r report) (string, error) {
	var all int64
	scored := 0
	for _, u := range r.Updates {
		if all += u.Rows; u.Error != nil {
			scored++
		}
	}
	if scored == 0 {
		return "", fmt.Errorf("the report has no rows that were predicted before they were learnt")
	}
	x := func(rows int64) float64 { return left + float64(rows)/float64(all)*(width-left-right) }
	low, high := limits(r)
	y := func(percent float64) float64 {
		at := math.Log(min(max(percent, low), high)/low) / math.Log(high/low)
		return height - bottom - at*(height-top-bottom)
	}
	var b strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12" role="img">`, width, height, width, height)
	line(`<title>Error before learning, by rows: %s versions</title>`, humanize.Comma(int64(len(r.Updates))))
	line(`<rect width="%d" height="%d" fill="#ffffff"/>`, width, height)
	// The axis is logarithmic: a change of the stream is at 90 %, and most of a stream below 5 %.
	for _, percent := range roundPercents() {
		if percent < low || percent > high {
			continue
		}
		line(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/>`, left, width-right, y(percent), y(percent))
		line(`<text x="%d" y="%.1f" text-anchor="end" fill="#444444">%g %%</text>`, left-6, y(percent)+4, percent)
	}
	for rows := int64(0); rows <= all; rows += roundStep(all) {
		line(`<text x="%.1f" y="%d" text-anchor="middle" fill="#444444">%s</text>`, x(rows), height-bottom+22, humanize.Comma(rows))
	}
	line(`<text x="%d" y="%d" text-anchor="middle" fill="#444444">rows of the stream; each tick is a version</text>`,
		(left+width-right)/2, height-8)
	line(`<text x="%d" y="%d" fill="#444444">predicted wrong before they were learnt</text>`, left, 16)

	var curve []string
	var rows int64
	for _, u := range r.Updates {
		middle := rows + u.Rows/2
		rows += u.Rows
		line(`<line class="version" x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#888888"/>`, x(rows), x(rows), height-bottom, height-bottom+5)
		if u.Drift {
			line(`<line class="alarm" x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#d62728" stroke-dasharray="4 3"/>`, x(rows), x(rows), top,
				height-bottom)
			line(`<text x="%.1f" y="%d" text-anchor="middle" fill="#d62728">alarm: the stream has changed</text>`, x(rows), top-8) // above the curve
		}
		if u.Error != nil {
			curve = append(curve, fmt.Sprintf("%.1f,%.1f", x(middle), y(*u.Error)))
		}
	}
	line(`<polyline fill="none" stroke="#1f77b4" stroke-width="2" points="%s"/>`, strings.Join(curve, " "))
	line(`</svg>`)
	return b.String(), nil
}
