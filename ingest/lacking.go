package ingest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
	if v.whole.Missing.Mode == layout.MissingMean {
		columns = slices.Clone(v.whole.Columns.Use)
	}
	if v.whole.Text.IsName() && !slices.Contains(columns, string(v.whole.Text)) {
		columns = append(columns, string(v.whole.Text))
	}
	return columns
}

// Watches reports whether Lost may find columns: those in which a row without a value is read as any other.
func (v *Values) Watches() bool {
	return v.whole.Missing.Mode == layout.MissingMean || v.whole.Text != ""
}

// Lost returns the columns that most rows of the batch lack, although earlier rows had them, as after a producer has
// renamed them; nil if there are none. Otherwise the caller takes the batch, and adds the messages with these columns again.
// Call it once before Take.
func (v *Values) Lost() (lost *Lost) {
	if v.batch.Rows == 0 {
		return nil
	}
	for at, lacks := range v.lacks {
		if lacks == nil {
			continue
		}
		name := v.NameOf(at)
		p := v.presences[name]
		if p == nil {
			p = v.earlierPresence(name)
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
			lost.find(v.batch.Origins, lacks, name)
		}
	}
	return lost
}

// see notes which of the rows that were read last lack a column.
func (v *Values) see() {
	if v.batch.Rows == 0 {
		v.lacks = make([][]bool, len(v.Cells))
	}
	for at := range v.lacks {
		if v.Messages.Watched(at) {
			v.lacks[at] = v.Messages.WithoutValue(v.lacks[at], at)
		}
	}
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

// earlierPresence returns the presence of a column in the rows before the first of this process.
func (v *Values) earlierPresence(name string) *layout.Presence {
	p := &layout.Presence{Optional: slices.Contains(v.whole.Missing.Columns, name)}
	if l := v.whole.Learnt(); l != nil {
		if lacking, known := l.Lacking[name]; known {
			p.Rows, p.Lacking = float64(l.Rows), float64(lacking)
		}
	}
	return p
}
