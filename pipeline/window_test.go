package pipeline

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// windowOf returns a window of increments with numbers from 1 and so many rows each, a message of partition 0 each, a second apart.
func windowOf(rows ...int64) *schemas.Window {
	w := &schemas.Window{Chain: &schemas.Chain{Number: len(rows)}, Full: 1, FullRows: 1}
	for i, n := range rows {
		span := coverage.Span{From: int64(i), To: int64(i + 1)}
		w.Increments = append(w.Increments, schemas.WindowIncrement{
			Increment: coverage.Increment{Number: i + 1, Weight: 1, Covered: []coverage.Coverage{{Spans: coverage.Spans{span}, Rows: n}}},
			Until:     int64(i+1) * 1000, Fitted: float64(n),
		})
	}
	return w
}

func numbers(increments []coverage.Increment) (all []int) {
	for i := range increments {
		all = append(all, increments[i].Number)
	}
	return all
}

// What leaves is what the window does not admit, the oldest first; retention takes any.
func TestLeave(t *testing.T) {
	for _, test := range []struct {
		name    string
		window  topics.WindowOptions
		staying []coverage.Span
		rows    []int64
		found   int64
		want    string
	}{
		{"no limit", topics.WindowOptions{}, nil, []int64{10, 10, 10}, 10, "[]"},
		{"rows: as many stay as are asked for", topics.WindowOptions{Rows: 30}, nil, []int64{10, 10, 10}, 10, "[1]"},
		{"rows: fewer would stay", topics.WindowOptions{Rows: 31}, nil, []int64{10, 10, 10}, 10, "[]"},
		{"rows: one increment fills it", topics.WindowOptions{Rows: 30}, nil, []int64{10, 10, 10}, 30, "[1 2 3]"},
		{"increments", topics.WindowOptions{Increments: 2}, nil, []int64{10, 10, 10}, 1, "[1 2]"},
		{"an increment without rows pushes none out", topics.WindowOptions{Increments: 2}, nil, []int64{10, 0, 10}, 1, "[1 2]"},
		{"time", topics.WindowOptions{Time: 2 * time.Second}, nil, []int64{10, 10, 10}, 1, "[1]"},
		{"retention takes the first message", topics.WindowOptions{}, []coverage.Span{{From: 1, To: 9}}, []int64{10, 10, 10}, 1, "[1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := windowOf(test.rows...)
			plan := &schemas.Chain{Number: 4, Until: 4000, Update: &schemas.Update{Decay: 0.5}}
			stays := leaveRule{retrain: topics.RetrainOptions{Window: test.window, Decay: 1}, bytes: schemas.WindowBytes, staying: test.staying}.
				leave(plan, w, test.found)
			if got := fmt.Sprint(numbers(plan.Update.Leave)); got != test.want {
				t.Errorf("%s leave, expected %s", got, test.want)
			}
			if len(stays)+len(plan.Update.Leave) != len(w.Increments) {
				t.Errorf("%d stay and %d leave of %d", len(stays), len(plan.Update.Leave), len(w.Increments))
			}
			for _, c := range plan.Update.Leave {
				if c.Weight != 0.5 {
					t.Errorf("increment %d leaves with the weight %v, expected its own after one more update", c.Number, c.Weight)
				}
			}
		})
	}
}

// After a change of the stream what came before it leaves, and the rest is visited with its whole weight.
func TestRestart(t *testing.T) {
	w := windowOf(10, 10, 10)
	w.Changed = 2
	w.Increments[2].Increment.Weight = 0.25
	u := restart(w, 1)
	if got := fmt.Sprint(numbers(u.Leave), numbers(u.Refresh)); got != "[1] [2 3]" {
		t.Errorf("leave and refresh: %s", got)
	}
	for _, c := range u.Refresh {
		if c.Weight != 1 {
			t.Errorf("increment %d has the weight %v", c.Number, c.Weight)
		}
	}
	if u.Passes < restartPasses || !u.Restart {
		t.Errorf("%d passes, a restart: %v", u.Passes, u.Restart)
	}
}

// A full run is due after so many updates, when the window has grown or its list is long, after a failure, and when the
// window is not what was learnt; never without rows.
func TestFullIsDue(t *testing.T) {
	job := &topics.Job{Retrain: topics.RetrainOptions{Decay: 1, Full: topics.FullOptions{Every: 3, Growth: 2}, OnNewClass: topics.NewClassFull, NewClassRows: 5}}
	head := &schemas.Manifest{Window: &schemas.StatePlace{}}
	for _, test := range []struct {
		name   string
		change func(*chainState)
		want   bool
	}{
		{"just made", func(*chainState) {}, false},
		{"grown", func(s *chainState) { s.window.FullRows = 15 }, true},
		{"grown, but full already", func(s *chainState) { s.window.FullRows, s.window.Full = 15, 3 }, false},
		{"enough updates", func(s *chainState) { s.window.Chain.Number = 4 }, true},
		{"a failed attempt", func(s *chainState) { s.attempt = 1 }, true},
		{"no state", func(s *chainState) { s.head = &schemas.Manifest{} }, true},
		{"a class with few rows", func(s *chainState) { s.window.Unknown = []examples.LabelRows{{Label: "a", Rows: 4}} }, false},
		{"another class", func(s *chainState) { s.window.Unknown = []examples.LabelRows{{Label: "a", Rows: 5}} }, true},
		{"other rows than were learnt", func(s *chainState) { s.renews = true }, true},
		{"a long list", func(s *chainState) {
			s.window = windowOf(slices.Repeat([]int64{1}, 21)...)
			s.window.Full, s.window.FullRows = 20, 21
		}, true},
		{"no rows", func(s *chainState) { s.window, s.attempt = windowOf(0, 0, 0), 1 }, false},
	} {
		s := chainState{head: head, window: windowOf(10, 10, 10)}
		s.window.FullRows = 30
		if test.change(&s); s.fullIsDue(job, windowOf(slices.Repeat([]int64{1}, 20)...).Bytes()) != test.want {
			t.Errorf("%s: full is due: %v", test.name, !test.want)
		}
	}
}

// What leaves the window by offsets takes whole increments with it, and one that is cut no longer knows its rows.
func TestLeaveOut(t *testing.T) {
	s := chainState{}
	s.setWindow(windowOf(10, 10, 10))
	if got := fmt.Sprint(s.deleted([]coverage.Span{{From: 2, To: 9}})); got != "[[0]@0–2]" || !s.losesTo([]coverage.Span{{From: 2, To: 9}}) {
		t.Errorf("deleted is %s", got)
	}
	s.leaveOut(coverage.Spans{{From: 0, To: 2}})
	if !s.renews || s.rows() != 10 || s.oldest[0] != 2 {
		t.Errorf("renews: %v, %d rows from offset %v", s.renews, s.rows(), s.oldest)
	}
	s.leaveOut(coverage.Spans{{From: 0, To: 9}})
	if s.window != nil || s.oldest != nil {
		t.Errorf("the window is %+v", s.window)
	}
	// A chain whose window is gone does not look for what the log has deleted of it.
	if s.losesTo([]coverage.Span{{From: 5, To: 9}}) {
		t.Error("no window loses rows")
	}
}
