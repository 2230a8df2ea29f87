package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Lost are the columns that most new rows lack, although earlier rows had them, and the messages that lack any of them.
type Lost struct {
	Optional map[string]int64              // rows of the batch without an optional column, by column: these count
	messages map[[2]int64]map[string]int64 // unusable messages: rows without another column, by column
}

// Any reports whether a message is unusable.
func (l *Lost) Any() bool { return len(l.messages) > 0 }

// Of returns the number of rows of a message that lack a column, by column. A message without such rows is usable.
func (l *Lost) Of(m TopicMessage) map[string]int64 {
	return l.messages[[2]int64{int64(m.Partition), m.Offset}]
}

// Lacks returns the reason why a message that lacks columns is unusable, with what it has instead.
func (v *Values) Lacks(ctx context.Context, m TopicMessage, columns map[string]int64) error {
	names, noun, instead := slices.Sorted(maps.Keys(columns)), "column ", ""
	if len(names) > 1 {
		noun = "columns "
	}
	if _, err := v.rowsOf(ctx, m); err == nil { // then the names of the reader are those of the message
		if instead = v.Instead(names[0]); instead != "" {
			instead = "; " + instead
		}
	}
	return fmt.Errorf("no value in %s, which earlier rows had and most new rows lack%s: has a producer renamed or dropped it? Restore it, "+
		"use the other name under examples.columns.use, or list it in examples.missing if its mean is to replace it",
		noun+layout.SomeNames(names), instead)
}

// Watched returns the columns with names that Lost may find, if the options list them.
func (v *Values) Watched() (columns []string) {
	if v.whole.Missing.Mode == layout.MissingMean {
		columns = slices.Clone(v.whole.Columns.Use)
	}
	if v.whole.Text.IsName() && !slices.Contains(columns, string(v.whole.Text)) {
		columns = append(columns, string(v.whole.Text))
	}
	return columns
}

// Watches reports whether Lost may find columns: those in which a row without a value is valid.
func (v *Values) Watches() bool {
	return v.whole.Missing.Mode == layout.MissingMean || v.whole.Text != ""
}

// Lost returns the columns that most rows of the batch lack, although earlier rows had them, as after a producer has
// renamed them; nil if there are none. Otherwise the caller takes the batch, and adds the messages with these columns again.
// Call it once before Take.
func (v *Values) Lost() (lost *Lost) {
	if v.batch.Len() == 0 {
		return nil
	}
	for at, lacks := range v.batch.Lacks {
		if lacks == nil {
			continue
		}
		name := v.NameOf(at)
		p := v.presences[name]
		if p == nil {
			p = &layout.Presence{Optional: slices.Contains(v.whole.Missing.Columns, name)}
			if l := v.whole.Found.Learnt; l != nil { // of the rows before the first of this process
				if lacking, known := l.Lacking[name]; known {
					p.Rows, p.Lacking = float64(l.Rows), float64(lacking)
				}
			}
			v.presences[name] = p
		}
		lacking, gone := p.See(lacks)
		if !gone {
			continue
		}
		if lost == nil {
			lost = &Lost{Optional: map[string]int64{}, messages: map[[2]int64]map[string]int64{}}
		}
		if p.Optional {
			lost.Optional[name] = int64(lacking)
		} else {
			lost.find(v.batch.Examples.Origins, lacks, name)
		}
	}
	return lost
}

// numbers are Spreads without the ages of times.
type numbers struct{ layout.Spreads }

// Wants implements [layout.Survey].
func (numbers) Wants(c layout.Cell) bool { return c.Role == layout.Feature && c.Kind != tabular.List }

// see records the columns with values, and the numbers, of the last rows read, if they are among the first.
func (v *Values) see() {
	if v.seen >= layout.OffsetRows {
		return
	}
	if v.present == nil {
		v.present = make([]bool, len(v.Cells))
	}
	for at := range v.Cells {
		for row := 0; row < v.block.Rows && !v.present[at]; row++ {
			cell := v.block.Cell(row, at)
			v.present[at] = !cell.Null()
		}
	}
	v.Examine(&v.block, numbers{v.spreads})
	v.seen += v.block.Rows
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

// enoughRows is the number of rows without a value after which a column name is assumed to be misspelt.
const enoughRows = 100

// Absent returns the names of the columns without a value in any of the first rows, if enough rows were read. At the end of the topic, it
// returns instead the columns whose name the last message lacks too, and for which no earlier row had a value.
func (v *Values) Absent(end bool) (names []string) {
	earlier := v.whole.Found.Learnt
	for at, present := range v.present {
		name := v.NameOf(at)
		if present || !v.Expects(at) {
			continue
		}
		if v.seen >= enoughRows && !end || end && v.Instead(name) != "" && !(earlier != nil && earlier.Lacking[name] < earlier.Rows) {
			names = append(names, name)
		}
	}
	return names
}

// Instead describes what the last message has in place of a column: the column with the nearest name, or else all columns. It
// returns "" if the message has that column, or if columns have no names.
func (v *Values) Instead(column string) string {
	names := v.reader.Names()
	if slices.ContainsFunc(names, func(name string) bool {
		return name == column || strings.HasPrefix(column, name+".") || strings.HasPrefix(name, column+".")
	}) {
		return ""
	}
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(v.Names, name) })
	if near := option.Nearest(column, others); near != "" {
		names = []string{near}
	}
	if len(names) == 0 {
		return ""
	}
	return "the message has " + layout.SomeNames(names)
}

// adviseMissing adds advice to the error about a missing value: what the message has in place of the first column that it lacks.
func (v *Values) adviseMissing(err error) error {
	if !errors.As(err, new(layout.MissingValueError)) {
		return err
	}
	for _, name := range v.whole.Columns.Use {
		if instead := v.Instead(name); instead != "" {
			return fmt.Errorf("%w; %s", err, instead)
		}
	}
	return err
}
