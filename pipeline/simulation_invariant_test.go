package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// recordKey identifies a record. Of a manifest's identity, only kind and run are set.
type recordKey struct{ wire.Identity }

func (k recordKey) String() string {
	if k.Kind == schemas.KindManifest {
		return "manifest of run " + k.Run
	}
	return fmt.Sprintf("%v with parent %s", k.Identity, k.Parent.Short())
}

// keyOf returns the key of a message's record, and whether that record must have the same content whoever writes it.
func keyOf(m wire.Message) (key recordKey, fixed bool) {
	if m.Value == nil {
		return recordKey{}, false // a tombstone
	}
	switch m.Kind() {
	case statistics.KindVisit, statistics.KindGram, statistics.KindLeave, statistics.KindSample, statistics.KindSeal, statistics.KindPrepare,
		schemas.KindWeights, schemas.KindStructure, statistics.KindIncrement, statistics.KindTerms, statistics.KindMoments:
		id, err := wire.IdentityOf(m)
		return recordKey{id}, err == nil
	case schemas.KindManifest:
		return recordKey{wire.Identity{Kind: schemas.KindManifest, Run: m.Run()}}, true
	}
	return recordKey{}, false
}

// content returns a digest of what must be the same in a record whoever writes it. The offsets in a seal may differ, so its
// rows and scores count. The times in a manifest may differ, so its weights count.
func (sc *scenario) content(m wire.Message) wire.Digest {
	switch m.Kind() {
	case statistics.KindSeal:
		return wire.Digest(m.Get("rows") + "/" + m.Get("scores"))
	case schemas.KindManifest:
		manifest, err := protocol.DecodeManifest(m)
		if err != nil {
			return wire.Digest(err.Error())
		}
		return manifest.WeightsDigest
	}
	return m.Digest()
}

// learn adds a message that was written without faults to the reference.
func (s *simulation) learn(m wire.Message) {
	if m.Kind() == schemas.KindPlan {
		if _, id, err := protocol.DecodePlan(m); err == nil && s.warm[id] == "" && s.chained[id] == "" {
			s.planned[id] = true
		}
	}
	if m.Kind() == schemas.KindManifest {
		s.learnVersion(m)
	}
	if key, fixed := keyOf(m); fixed {
		if before, known := s.reference[key]; known && before != s.content(m) {
			s.fail("%v has content %s, by other workers %s", key, s.content(m), before)
		}
		s.reference[key] = s.content(m)
	}
}

// note notes which runs were submitted, how they ended, and which versions there are, as the order of the writes has it.
func (s *simulation) note(m wire.Message) {
	switch end := protocol.EndOf(m); {
	case m.Kind() == schemas.KindPlan && m.Value != nil && !slices.Contains(s.runs, m.Run()):
		s.runs = append(s.runs, m.Run())
		s.noteWarm(m)
	case m.Value == nil && strings.HasPrefix(m.Key, string(schemas.KindManifest)+"/"):
		s.leaving[strings.Split(m.Key, "/")[1]] = true
	case m.Kind() == schemas.KindRemoval:
		s.versions = slices.DeleteFunc(s.versions, func(p schemas.Place) bool { return p.Run == m.Run() })
		s.removed[m.Run()] = true
		if removal, err := schemas.DecodeJSON[schemas.Removal](m); err != nil {
			s.fail("%v", err)
		} else {
			s.removedRuns[removal.Version] = removal.Run
		}
	case end != nil:
		states, state := []string{"", schemas.Failed, schemas.Cancelled, schemas.Done}, end.State
		taken := func(p schemas.Place) bool { return p.Version == end.Version.Version }
		others := func(p schemas.Place) bool { return taken(p) && p.Run != end.Run }
		again := false // another run has made the version with that number
		if end.Version != nil {
			removed := s.removedRuns[end.Version.Version]
			again = slices.ContainsFunc(s.versions, others) || removed != "" && removed != end.Run
		}
		if again {
			state = schemas.Cancelled
		}
		if state == schemas.Failed && s.chained[end.Run] != "" && !s.dataLost {
			s.fail("run %s of the chain failed, though no data was lost: %s", end.Run, end.Reason)
		}
		if state == schemas.Done && s.ends[end.Run] != state {
			s.noteMade(end.Run)
			if s.chain != nil && s.chain.loses && end.Version != nil {
				s.checkNeverLess(end)
			}
		}
		s.ends[end.Run] = states[max(slices.Index(states, s.ends[end.Run]), slices.Index(states, state))]
		if end.Version == nil {
			return
		}
		if s.places[*end.Version] = true; end.Version.Withheld {
			s.log.count(withholding)
		}
		if !again && !s.removed[end.Run] && !slices.ContainsFunc(s.versions, taken) {
			s.versions = append(s.versions, *end.Version)
		}
	}
}

// checkWrite checks that a message that is written has the content that it has without faults.
func (s *simulation) checkWrite(topic string, m wire.Message) {
	if isBeside(topic) {
		return // whoever made the topic compares the versions
	}
	if topic == s.topics.Examples {
		s.examplesChanged = true
		return
	}
	s.note(m)
	if m.Kind() == schemas.KindReport && s.chained[m.Run()] != "" {
		s.checkChainReport(m)
	}
	if topic == s.topics.Quarantine {
		s.quarantined[m.Key] = true
		s.log.count(quarantining)
	}
	key, fixed := keyOf(m)
	if !fixed {
		return
	}
	if key.Kind == statistics.KindVisit && (s.solved[key.Run] || key.Partition%s.job.Group > 0) {
		s.fail("%v is written: expected one record a share, and none of an update that its solver visits", key)
	}
	if s.examplesReused && (key.Stage == wire.Survey && (key.Kind != statistics.KindPrepare || s.local) || s.chain != nil &&
		(key.Kind == statistics.KindGram || key.Kind == statistics.KindIncrement)) {
		// The first survey counts, or, where solvers visit the rows, the first result of one, and later visits hold to it. Gram matrices
		// do not say which rows they are of.
		return
	}
	if key.Kind == schemas.KindManifest {
		s.checkVersion(m)
	}
	_, known := s.reference[key]
	// In the reference of a chain one worker owns all partitions.
	divided := s.chain != nil && !known && slices.Contains([]wire.Kind{statistics.KindVisit, statistics.KindGram, statistics.KindSample,
		statistics.KindLeave, statistics.KindIncrement, statistics.KindSeal}, key.Kind)
	if s.examplesReused || divided || !s.planned[key.Run] && (s.examplesChanged || s.warm[key.Run] != "" || s.chained[key.Run] != "") {
		if first, known := s.others[key]; !known {
			s.others[key] = s.content(m)
		} else if got := s.content(m); got != first {
			s.fail("%s: %v has content %s, it had %s", topic, key, got, first)
		}
		return
	}
	if want, known := s.reference[key]; !known {
		s.fail("%s: %v is written, which no run writes without faults", topic, key)
	} else if got := s.content(m); got != want {
		s.fail("%s: %v has content %s, without faults %s", topic, key, got, want)
	}
}

// checkReport checks the report of a run that is done.
func (s *simulation) checkReport(id string, r *schemas.Report) {
	if s.chained[id] != "" {
		return // it was checked when it was written: later runs may have removed it
	}
	if s.examplesReused || !s.planned[id] && s.examplesChanged {
		return // it is of other examples
	}
	if rows := r.Rows + r.Splits[examples.Holdout.String()].Rows; rows != s.rows || !maps.Equal(r.PassedOver, s.passedOver) ||
		r.Quarantined != int64(len(s.bad)) {
		s.fail("the report of run %s has %d rows, passed over %v and quarantined %d; expected %d, %v and %d",
			id, rows, r.PassedOver, r.Quarantined, s.rows, s.passedOver, len(s.bad))
	}
	s.checkStages(id, r)
	for _, key := range s.bad {
		if !s.quarantined[key] {
			s.fail("run %s is done, but %s was not put into quarantine", id, key)
		}
	}
}

// checkStages checks that the report of a run says of its stages what it says without faults, whoever finished them.
func (s *simulation) checkStages(id string, r *schemas.Report) {
	for i := range r.Stages {
		r.Stages[i].Seconds = 0
	}
	switch got, lineage := string(wire.JSON(r.Stages)), s.lineages[id]; {
	case s.random == nil:
		s.reportsOf[lineage] = got
	case lineage != "" && s.planned[id] && got != s.reportsOf[lineage]:
		s.fail("the report of run %s (%s) says of its stages %s, without faults %s", id, lineage, got, s.reportsOf[lineage])
	}
}

// checkEnd checks what must hold once all actors have stopped: the ledger has the runs and versions that were written, and no run that
// has ended goes on; each run that is done has a report, and a version unless newer ones have replaced it; compaction changes nothing
// of that; each version can be read, and the latest has the highest number.
func (s *simulation) checkEnd() {
	if s.historyLost {
		return
	}
	if s.chain != nil {
		s.checkChain()
	}
	p, ctx := s.pipeline(unattended()), context.Background()
	history, err := p.ReadLedger(ctx)
	if err != nil {
		s.fail("before compaction: %v", err)
		return
	}
	s.checkLedger()
	s.compact(s.steps)
	s.checkLedger()
	manifests, err := p.Versions(ctx)
	if err != nil {
		s.fail("%v", err)
	}
	done := 0
	for id, state := range s.ends {
		if state != schemas.Done {
			continue
		}
		done++
		if history.Plan(id) == nil || history.End(id) == nil {
			continue // it is too old
		}
		if end, chain := history.End(id), history.Plan(id).Chain; chain != nil && end.Attempt == "" && chain.Number < history.Chained().Number {
			continue // it is too old too: its end was removed with its version, and a copy of its plan came late, which counts as cancelled
		}
		report, err := dispatch.Follow(ctx, p, history.Plan(id), history, event.Ignore{})
		if (s.removed[id] || s.leaving[id]) && errors.As(err, new(*dispatch.ReportGoneError)) {
			continue // the report went with the version
		}
		if err != nil {
			s.fail("run %s is done, but has no report: %v", id, err)
		} else {
			s.checkReport(id, report)
		}
	}
	least := min(done, simKeep)
	if s.ordered {
		least = 0
	}
	if s.forget != nil {
		least = 1
		s.checkForgotten()
	}
	if len(manifests) < least || len(manifests) > done {
		s.fail("%d runs are done, but there are %d versions", done, len(manifests))
	}
	if latest, err := p.Version(ctx, protocol.Latest); len(manifests) > 0 && !s.ordered &&
		(err != nil || slices.ContainsFunc(manifests, func(m protocol.Finished) bool { return m.Version > latest.Version && m.Offered })) {
		s.fail("the latest version is %+v, %v", latest, err)
	}
	for _, m := range manifests {
		model, err := p.Model(ctx, m.Run)
		if s.leaving[m.Run] && protocol.IsIncomplete(err) {
			continue // its removal was interrupted, and another solver's copy of the manifest is left: the next removal repeats it
		}
		if err != nil {
			s.fail("version %d: %v", m.Version, err)
		} else if model.Digest() != m.WeightsDigest {
			s.fail("version %d has digest %s, its manifest says %s", m.Version, model.Digest(), m.WeightsDigest)
		}
	}
}

// checkLedger checks that the ledger has the unfinished runs and the versions that were written.
func (s *simulation) checkLedger() {
	l, err := s.pipeline(unattended()).ReadLedger(context.Background())
	if err != nil {
		s.fail("read the ledger: %v", err)
		return
	}
	damaged := &eventRecorder{}
	if l.Report(damaged); len(damaged.events) > 0 {
		s.fail("plans has damaged messages: %v", damaged.events)
	}
	unfinished := slices.Collect(maps.Keys(maps.Collect(l.Unfinished())))
	for _, id := range s.runs {
		if slices.Contains(unfinished, id) != (s.ends[id] == "") {
			s.fail("run %s has end %q, but the ledger has the unfinished runs %v", id, s.ends[id], unfinished)
		}
		if end := l.End(id); end != nil && l.Plan(id) != nil && end.State != s.ends[id] {
			s.fail("the ledger has end %+v of run %s, which is %s", end, id, s.ends[id])
		}
	}
	// If two solvers have published a version, compaction may let the other one's end be the first.
	same := func(a, b schemas.Place) bool { return a.Version == b.Version && a.Run == b.Run && s.places[a] }
	if !slices.EqualFunc(l.Versions(), s.versions, same) {
		s.fail("the ledger has the versions %v, those that were made and not removed are %v", l.Versions(), s.versions)
	}
}
