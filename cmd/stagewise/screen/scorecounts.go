package screen

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/score"
)

// ScoreCounts counts what this process has predicted.
type ScoreCounts struct{ messages, rows, bad atomic.Int64 }

// Record counts predictions.
func (s *ScoreCounts) Record(e event.Event) {
	if e, ok := e.(event.Scored); ok {
		s.messages.Add(int64(e.Messages))
		s.rows.Add(e.Rows)
		s.bad.Add(int64(e.Bad))
	}
}

// Conclude writes what has predictions now.
func (s *ScoreCounts) Conclude(w io.Writer, o score.Options) {
	fmt.Fprintf(w, "predictions for %s rows of %s of %s are on %s", humanize.Comma(s.rows.Load()),
		english.Plural(int(s.messages.Load()), "message", ""), o.From, o.To)
	if bad := s.bad.Load(); bad > 0 {
		fmt.Fprintf(w, "; %s can't be used: see the reasons in their predictions", english.Plural(int(bad), "message", ""))
	}
	fmt.Fprintln(w)
}
