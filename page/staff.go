package page

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// pollStaff asks the brokers which processes work on the runs.
func (r *reader) pollStaff(ctx context.Context) error {
	var s Staff
	embedded, err := r.log.IsEmbedded(ctx)
	if err != nil {
		return err
	}
	s.Embedded = embedded
	t := r.client.Topics
	s.Hidden = []string{}
	for _, group := range []struct {
		name, role string
		members    *[]Worker
		runs       bool // its members take part in runs
	}{
		{t.Ingesters(), protocol.RoleIngest, &s.Ingesters, false}, {t.Workers(), protocol.RoleWork, &s.Workers, true},
		{t.Solvers(), protocol.RoleSolve, &s.Solvers, true},
		{t.Runners(), protocol.RoleRun, &s.Runners, true}, {t.Scorers(), protocol.RoleScore, &s.Scorers, false},
		{t.Servers(), protocol.RoleServe, &s.Servers, false},
	} {
		*group.members = []Worker{}
		owners, err := r.log.Owners(ctx, group.name)
		switch {
		case err == nil:
		case group.runs:
			s.Unknown = err.Error() // the rest of the page needs no such right
			continue
		default:
			s.Hidden = append(s.Hidden, group.role)
			continue
		}
		for _, o := range owners {
			*group.members = append(*group.members, worker(o))
		}
	}
	now := r.now()
	r.change(func() {
		r.staff, r.polled = s, true
		for role, members := range map[string][]Worker{protocol.RoleRun: s.Runners, protocol.RoleScore: s.Scorers,
			protocol.RoleServe: s.Servers} {
			if len(members) > 0 {
				r.last[role] = now
			}
		}
	})
	return nil
}

// knows reports whether the processes are known.
func (r *reader) knows(staff *Staff) bool { return r.polled && staff.Unknown == "" && !staff.Embedded }

func worker(o kafkalog.Owner) Worker {
	// The coordinator puts the name of the client before a UUID: a few digits tell members of one host apart.
	_, id, _ := strings.Cut(o.ID, "-")
	return Worker{ID: id[:min(len(id), 8)], Host: o.Host, Partitions: append([]int{}, o.Partitions...)}
}

// working returns the processes that work on runs, and what they do in a run, or wait for. The page names no more than
// a few of what is missing.
func (r *reader) working(now *Run) Staff {
	s := r.staff
	s.Hidden = append([]string{}, s.Hidden...)
	for _, list := range []*[]Worker{&s.Ingesters, &s.Workers, &s.Solvers, &s.Runners, &s.Scorers, &s.Servers} {
		*list = clone(*list)
	}
	for _, idle := range []struct {
		members []Worker
		does    string
	}{{s.Ingesters, "ingests " + r.options.Source}, {s.Scorers, "predicts"}, {s.Servers, "answers"}} {
		for i := range idle.members {
			if w := &idle.members[i]; len(w.Partitions) > 0 || idle.does == "answers" {
				w.Waits = idle.does
			} else {
				w.Waits = "stands by"
			}
		}
	}
	if now == nil || !now.underWay() {
		for _, list := range [][]Worker{s.Workers, s.Solvers, s.Runners} {
			for i := range list {
				list[i].Waits = "waits for a run"
			}
		}
		return s
	}
	f := r.follows.now
	due, seal := f.due()
	have := f.have(due, seal)
	what := event.VisitOf(due.Stage, due.Number, len(f.plan.Stages))
	if seal != protocol.NoStage {
		what = "the residuals of " + event.StageOf(seal, len(f.plan.Stages))
	}
	var behind []string // hosts of workers that have not published all of theirs
	for i := range s.Workers {
		w := &s.Workers[i]
		mine := 0
		for _, p := range w.Partitions {
			if f.of[p] {
				if mine++; have[p] {
					w.Have++
				}
			}
		}
		switch {
		case len(w.Partitions) == 0:
			w.Waits = "stands by: others own all partitions"
		case mine == 0:
			w.Waits = "waits: the run has nothing of its partitions"
		case w.Have < mine:
			w.Waits = fmt.Sprintf("works on %s: %d of %d partitions are published", what, w.Have, mine)
			behind = append(behind, w.Host)
		case now.Have == now.Of:
			w.Waits = "waits for the solver"
		default:
			w.Waits = "waits for other workers"
		}
	}
	for i := range s.Solvers {
		switch w := &s.Solvers[i]; {
		case len(w.Partitions) == 0:
			w.Waits = "stands by"
		case now.Have == now.Of:
			w.Waits = "solves"
		case len(behind) > 0:
			behind = slices.Compact(behind)
			w.Waits = "waits for " + english.OxfordWordSeries(behind[:min(len(behind), 3)], "and")
		default:
			w.Waits = "waits for workers"
		}
	}
	for i := range s.Runners {
		s.Runners[i].Waits = "waits for the run"
		if len(s.Runners[i].Partitions) == 0 {
			s.Runners[i].Waits = "stands by"
		}
	}
	return s
}

func clone(list []Worker) []Worker { return append([]Worker{}, list...) }

// waits says what the run waits for.
func (r *reader) waits(s *State) {
	now := s.Run
	if now == nil || !now.underWay() {
		return
	}
	partitions := func(do string) string {
		return fmt.Sprintf("%s of %s %s", english.Plural(now.Of-now.Have, "partition", ""), fmt.Sprint(now.Of), do)
	}
	staff := &s.Staff
	known := r.knows(staff)
	switch {
	case known && len(staff.Workers) == 0:
		now.Waits = "for a worker: no process runs stagewise work"
	case known && len(staff.Solvers) == 0:
		now.Waits = "for a solver: no process runs stagewise solve"
	case now.Sealing && now.Have < now.Of:
		now.Waits = "for residuals of " + partitions("")
	case now.Stage < 0 && now.Have < now.Of:
		now.Waits = "for workers to survey " + partitions("")
	case now.Stage >= len(now.Stages):
		now.Waits = "for its version to be written"
	case now.Have < now.Of:
		now.Waits = "for workers to visit " + partitions("")
	default:
		now.Waits = "for the solver"
	}
	now.Waits = strings.TrimSpace(now.Waits)
}
