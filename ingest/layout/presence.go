package layout

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/examples"
)

const (
	// knownRows is the minimum number of earlier rows to conclude that a column is present.
	knownRows = 20
	// countedRows is the number of earlier rows above which the counts are halved, so that newer rows count more.
	countedRows = 1024
	// againRows is the number of consecutive rows with a value after which a column is present again.
	againRows = 8
	// byChance is the maximum probability that rows lack a column by chance.
	byChance = 1e-4
)

// Presence counts how often rows have a value in a column. The zero value has counted none.
type Presence struct {
	Rows, Lacking float64 // number of earlier rows, and of those without a value
	Optional      bool    // rows without a value count as others do
	run           int     // number of consecutive last rows without a value
	again         int     // number of consecutive last rows with a value, while the column is gone
	gone          bool    // most new rows have no value, unlike earlier ones
}

// See adds rows; lacks reports which lack the column. It returns their number, and whether most new rows lack it, unlike earlier ones.
func (p *Presence) See(lacks []bool) (lacking int, gone bool) {
	for _, is := range lacks {
		if is {
			lacking++
		}
	}
	first, before := slices.Index(lacks, true), 0
	if first == 0 {
		before = p.run // rows before these that are part of the same run
	}
	if lacking > 0 {
		p.gone = p.gone || p.goes(before+lacking, before+len(lacks)-first) || p.goesAmong(lacks, lacking)
	}
	for _, is := range lacks {
		if is {
			p.run, p.again = p.run+1, 0
		} else {
			p.run, p.again = 0, p.again+1
		}
	}
	switch gone = p.gone; {
	case !gone:
		p.count(len(lacks), lacking)
	case p.Optional:
		p.gone = false
		p.count(len(lacks), lacking)
	default:
		p.gone = p.again < againRows
		p.count(len(lacks)-lacking, 0)
	}
	return lacking, gone
}

// goes reports whether a column is gone: most of the last rows, lacking of them, lack it, although earlier rows had it.
func (p *Presence) goes(lacking, rows int) bool {
	part := (p.Lacking + 1) / (p.Rows + 2)
	return p.Rows >= knownRows && part < 0.5 && 2*lacking > rows && float64(lacking)*math.Log(part) < math.Log(byChance)
}

// goesAmong is goes for the first rows, such as a short backlog: the last ones, without a value, are compared with those before them.
func (p *Presence) goesAmong(lacks []bool, lacking int) bool {
	run := 0
	for run < len(lacks) && lacks[len(lacks)-1-run] {
		run++
	}
	earlier := *p
	earlier.count(len(lacks)-run, lacking-run)
	return p.Rows < knownRows && run >= knownRows && earlier.goes(run, run)
}

// count adds rows to the earlier ones.
func (p *Presence) count(rows, lacking int) {
	p.Rows, p.Lacking = p.Rows+float64(rows), p.Lacking+float64(lacking)
	if p.Rows > countedRows {
		p.Rows, p.Lacking = p.Rows/2, p.Lacking/2
	}
}

// watched reports whether a row without a value in a column is valid: a row without a text, or, if missing values are allowed, without a
// number, a time or a word. A row without a list or a sparse row is an error.
func (l *Layout) watched(column int) bool {
	if l.Options.Mode == Predicting {
		return false
	}
	switch c := l.Cells[column]; c.Role {
	case Counted:
		return true
	case Feature, Category, Time, Hashed:
		return l.Options.Missing.Mode == MissingMean && c.Kind != tabular.List
	}
	return false
}

// Expects reports whether rows are expected to have a value in a column at some time: a feature, or a served label or version.
func (l *Layout) Expects(column int) bool {
	r := l.Cells[column].Role
	return r.IsFeature() || r == ServedLabel || r == ServedVersion
}

// withoutValue appends whether each row of a block, the first of those filled last, has no value in a column.
func (l *Layout) withoutValue(lacks []bool, b *tabular.Block, filled *examples.Rows, column int) []bool {
	c := l.Cells[column]
	n := b.Rows * l.Features
	floats := filled.Floats[max(0, len(filled.Floats)-n):]
	if l.IsMixed() {
		floats = l.mixed.numbers[:n]
	}
	for row := range b.Rows {
		if c.Role == Counted || c.Role == Hashed {
			cell := b.Cell(row, column)
			text, err := cell.Words()
			lacks = append(lacks, err == nil && l.missing.Has(text))
			continue
		}
		x := floats[row*l.Features+c.At]
		lacks = append(lacks, x != x)
	}
	return lacks
}
