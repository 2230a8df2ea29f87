package ingest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/examples"
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
	optional      bool    // such rows count
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
	Optional map[string]int64              // rows of the batch without an optional column, by column: these count
	messages map[[2]int64]map[string]int64 // unusable messages: rows without another column, by column
}

// Any reports whether a message is unusable.
func (l *Lost) Any() bool { return len(l.messages) > 0 }

// Of returns the columns that rows of a message lack, and how many do. A message without any is usable.
func (l *Lost) Of(m TopicMessage) map[string]int64 {
	return l.messages[[2]int64{int64(m.Partition), m.Offset}]
}

// Lacks returns the reason why a message that lacks columns is unusable, with those that it has instead.
func (v *Values) Lacks(ctx context.Context, m TopicMessage, columns map[string]int64) error {
	names := slices.Sorted(maps.Keys(columns))
	instead := ""
	if others := v.unread(ctx, m); len(others) > 0 {
		plain := func(name string) string {
			return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
		}
		similar := func(other string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return plain(name) == plain(other) })
		}
		slices.SortStableFunc(others, func(a, b string) int {
			return cmp.Compare(strconv.FormatBool(similar(b)), strconv.FormatBool(similar(a)))
		})
		instead = ". It has " + layout.SomeNames(others) + ", which no key names"
	}
	return fmt.Errorf("no value in %s, which earlier rows had and most new rows lack%s: has a producer renamed or dropped it? Restore it, "+
		"use the other name under examples.columns.use, or list it in examples.missing if its mean is to replace it", columnsNamed(names),
		instead)
}

// columnsNamed formats the names of columns.
func columnsNamed(names []string) string {
	if len(names) == 1 {
		return "column " + layout.SomeNames(names)
	}
	return "columns " + layout.SomeNames(names)
}

// unread returns the names of the first row of a message that no key names, if the format can tell.
func (v *Values) unread(ctx context.Context, m TopicMessage) []string {
	r, ok := v.reader.(message.Namer)
	if !ok {
		return nil
	}
	p, err := v.payload(ctx, m)
	if err != nil {
		return nil
	}
	return r.Unread(p)
}

// Watched returns the columns with names that Lost may find, if the options list them.
func (v *Values) Watched() (columns []string) {
	if v.Watches() {
		columns = v.whole.Columns.Use
	}
	return columns
}

// Watches reports whether Lost may find columns: those of dense rows, and the numbers and times of mixed rows. A word that a
// row lacks, and a value of a sparse row, is 0 and not missing.
func (v *Values) Watches() bool {
	return v.whole.Missing.Mode == layout.MissingMean && (!v.IsSparse() || v.IsMixed())
}

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
	floats, cols := b.Floats, b.Cols
	if b.Sparse != nil {
		cols = v.Table.Features()
		floats = make([]float32, b.Rows*cols)
		b.Sparse.Leading(floats, cols)
	}
	lacks := make([]bool, b.Rows)
	for at, c := range v.Cells {
		name := v.NameOf(at)
		p := v.presences[name]
		if p == nil {
			continue
		}
		first, lacking := -1, 0
		for row := range b.Rows {
			x := floats[row*cols+c.At]
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
		if p.gone && lost == nil {
			lost = &Lost{Optional: map[string]int64{}, messages: map[[2]int64]map[string]int64{}}
		}
		if p.gone && p.optional {
			lost.Optional[name], p.gone = int64(lacking), false
		}
		if !p.gone {
			p.count(b.Rows, lacking)
			continue
		}
		p.count(b.Rows-lacking, 0)
		p.gone = p.again < againRows
		lost.find(b.Origins, lacks, name)
	}
	return lost
}

// find finds the messages with rows that lack a column.
func (l *Lost) find(origins examples.RowOrigins, lacks []bool, column string) {
	row := 0
	for _, o := range origins {
		for m := range o.Messages {
			for range o.Rows {
				if lacks[row] {
					at := [2]int64{int64(o.Partition), o.Offset + int64(m)}
					if l.messages[at] == nil {
						l.messages[at] = map[string]int64{}
					}
					l.messages[at][column]++
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
		if slices.Contains([]layout.Role{layout.Feature, layout.Category, layout.Time}, c.Role) && !c.List {
			all[v.NameOf(at)] = &presence{}
		}
	}
	for _, name := range v.whole.Missing.Columns {
		if p := all[name]; p != nil {
			p.optional = true
		}
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
