package ingest

import (
	"fmt"
	"math"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

const (
	// knownRows is the number of earlier rows from which a column is known to be there.
	knownRows = 20
	// countedRows is the number of earlier rows from which their counts are halved, so that newer rows count more.
	countedRows = 1024
	// againRows is the number of rows with a value, in a row, after which a column is there again.
	againRows = 8
	// byChance is the maximum probability that so many rows lack a column by chance.
	byChance = 1e-4
)

// presence is how often rows have a value in a column.
type presence struct {
	rows, lacking float64 // number of earlier rows, and of those without a value
	run           int     // number of the last rows in a row without a value
	again         int     // number of the last rows in a row with a value, while the column is gone
	gone          bool    // most new rows have no value, unlike earlier ones
}

// goes reports whether most rows at the end of a batch lack a column, lacking of them, although earlier rows had it.
func (p *presence) goes(lacking, rows int) bool {
	part := (p.lacking + 1) / (p.rows + 2)
	return p.rows >= knownRows && part < 0.5 && 2*lacking > rows && float64(lacking)*math.Log(part) < math.Log(byChance)
}

// count adds rows to the earlier ones.
func (p *presence) count(rows, lacking int) {
	p.rows, p.lacking = p.rows+float64(rows), p.lacking+float64(lacking)
	if p.rows > countedRows {
		p.rows, p.lacking = p.rows/2, p.lacking/2
	}
}

// Lost are the columns that most new rows lack, although earlier rows had them, and the messages that lack any of them.
type Lost struct {
	Columns  []string
	Rows     []int64 // by column: rows of the batch that lack it
	messages map[[2]int64]string
}

// Of returns the reason why a message is unusable; nil if it has the columns.
func (l *Lost) Of(m TopicMessage) error {
	names, lacks := l.messages[[2]int64{int64(m.Partition), m.Offset}]
	if !lacks {
		return nil
	}
	return fmt.Errorf("no value in %s, which earlier rows had and most new rows lack: has a producer renamed or dropped it? List it in "+
		"examples.optional if its mean is to replace it", names)
}

// Watches reports whether Lost may find columns.
func (v *Values) Watches() bool { return v.whole.Missing == layout.MissingMean && !v.IsSparse() }

// Lost returns the columns that most rows of the batch lack, although earlier rows had them, as after a producer has
// renamed them; nil if there are none. Otherwise the caller takes the batch, and adds the messages with these columns again.
// Call it once before Take.
func (v *Values) Lost() (lost *Lost) {
	b := &v.batch
	if !v.Watches() || b.Rows == 0 {
		return nil
	}
	if v.presences == nil {
		v.presences = v.earlierPresences()
	}
	var bad []bool // by row
	lacks := make([]bool, b.Rows)
	names := make([]string, b.Rows)
	for at, c := range v.Cells {
		name := v.NameOf(at)
		p := v.presences[name]
		if p == nil {
			continue
		}
		first, lacking := -1, 0
		for row := range b.Rows {
			x := b.Floats[row*b.Cols+c.At]
			if lacks[row] = x != x; lacks[row] {
				if lacking++; first < 0 {
					first = row
				}
			}
		}
		if lacking == 0 && !p.gone {
			p.count(b.Rows, 0)
			p.run = 0
			continue
		}
		before := 0 // the rows before the batch that are part of the same run
		if first == 0 {
			before = p.run
		}
		if lacking > 0 {
			p.gone = p.gone || p.goes(before+lacking, before+b.Rows-first)
		}
		for _, is := range lacks {
			switch {
			case is:
				p.run, p.again = p.run+1, 0
			default:
				p.run, p.again = 0, p.again+1
			}
		}
		if !p.gone {
			p.count(b.Rows, lacking)
			continue
		}
		p.count(b.Rows-lacking, 0)
		p.gone = p.again < againRows
		if lacking == 0 {
			continue
		}
		if lost == nil {
			lost, bad = &Lost{messages: map[[2]int64]string{}}, make([]bool, b.Rows)
		}
		lost.Columns, lost.Rows = append(lost.Columns, name), append(lost.Rows, int64(lacking))
		for row, is := range lacks {
			if is {
				bad[row] = true
				names[row] += ", column " + value.Quote(name)
			}
		}
	}
	if lost != nil {
		lost.find(b.Origins, bad, names)
	}
	return lost
}

// find finds the messages with bad rows.
func (l *Lost) find(origins examples.RowOrigins, bad []bool, names []string) {
	row := 0
	for _, o := range origins {
		for m := range o.Messages {
			for range o.Rows {
				if bad[row] {
					l.messages[[2]int64{int64(o.Partition), o.Offset + int64(m)}] = strings.TrimPrefix(names[row], ", ")
				}
				row++
			}
		}
	}
}

// earlierPresences returns the presences of the columns that rows may not lose: those of the rows before the first of this
// process.
func (v *Values) earlierPresences() map[string]*presence {
	all := map[string]*presence{}
	for at, c := range v.Cells {
		if c.Role.IsFeature() && !c.List {
			all[v.NameOf(at)] = &presence{}
		}
	}
	for _, name := range v.whole.Optional {
		delete(all, name)
	}
	if l := v.whole.Learnt(); l != nil {
		for name, lacking := range l.Lacking {
			if p := all[name]; p != nil {
				p.rows, p.lacking = float64(l.Rows), float64(lacking)
			}
		}
	}
	return all
}
