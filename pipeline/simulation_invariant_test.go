package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// recordKey identifies a record. Of a manifest's identity, only kind and run are set.
type recordKey struct{ schemas.Identity }

func (k recordKey) String() string {
	if k.Kind == schemas.KindManifest {
		return "manifest of run " + k.Run
	}
	return fmt.Sprintf("%v with parent %s", k.Identity, k.Parent.Short())
}

// keyOf returns the key of a message's record, and whether that record must have the same content whoever writes it.
func keyOf(m schemas.Message) (key recordKey, fixed bool) {
	switch m.Kind() {
	case schemas.KindVisit, schemas.KindGram, schemas.KindSample, schemas.KindSeal, schemas.KindPrepare, schemas.KindWeights:
		id, err := schemas.IdentityOf(m)
		return recordKey{id}, err == nil
	case schemas.KindManifest:
		return recordKey{schemas.Identity{Kind: schemas.KindManifest, Run: m.Run()}}, true
	}
	return recordKey{}, false
}

// content returns a digest of what must be the same in a record whoever writes it. The offsets in a seal may differ, so its
// rows and scores count. The times in a manifest may differ, so its weights count.
func (sc *scenario) content(m schemas.Message) schemas.Digest {
	switch m.Kind() {
	case schemas.KindSeal:
		return schemas.Digest(m.Get("rows") + "/" + m.Get("scores"))
	case schemas.KindManifest:
		manifest, err := newCachingCodec(sc.cache, 0).DecodeManifest(m)
		if err != nil {
			return schemas.Digest(err.Error())
		}
		return manifest.WeightsDigest
	}
	return m.Digest()
}

// learn adds a message that was written without faults to the reference.
func (s *simulation) learn(_ string, m schemas.Message) {
	if key, fixed := keyOf(m); fixed {
		s.reference[key] = s.content(m)
	}
	switch id, err := schemas.IdentityOf(m); {
	case err != nil || id.Stage == schemas.Survey || id.Visit != 0:
	case id.Kind == schemas.KindGram:
		if s.grams == nil {
			s.grams = map[int]bool{}
		}
		s.grams[id.Partition] = true
	case id.Kind == schemas.KindVisit:
		if len(s.grams) == simPartitions {
			s.gramsFirst++
		}
		s.grams = nil
	}
}

// checkWrite checks that a message that is written has the content that it has without faults.
func (s *simulation) checkWrite(topic string, m schemas.Message) {
	key, fixed := keyOf(m)
	if !fixed {
		return
	}
	if want, known := s.reference[key]; !known {
		s.fail("%s: %v is written, which no run writes without faults", topic, key)
	} else if got := s.content(m); got != want {
		s.fail("%s: %v has content %s, without faults %s", topic, key, got, want)
	}
}

// checkEnd checks what must hold once all actors have stopped: compaction changes no run's end, each run that is done has a
// report and a version, and each version can be read.
func (s *simulation) checkEnd() {
	p, ctx := s.pipeline(unattended()), context.Background()
	before, err := p.ReadLedger(ctx)
	if err != nil {
		s.fail("before compaction: %v", err)
		return
	}
	s.compact()
	after, err := p.ReadLedger(ctx)
	if err != nil {
		s.fail("after compaction: %v", err)
		return
	}
	damaged := &eventRecorder{}
	if after.Report(damaged); len(damaged.events) > 0 {
		s.fail("plans has damaged messages after compaction: %v", damaged.events)
	}
	manifests, err := p.Versions(ctx)
	if err != nil {
		s.fail("%v", err)
	}
	done := 0
	for _, id := range s.runs {
		end := before.End(id)
		if end == nil {
			continue
		}
		if compacted := after.End(id); compacted == nil || compacted.State != end.State {
			s.fail("run %s has end %+v after compaction, expected state %s", id, compacted, end.State)
		}
		if end.State != schemas.Done {
			continue
		}
		done++
		if report, err := p.follow(ctx, after.Plan(id), event.Ignore{}); err != nil || report.Rows != simRows*simMessages*simPartitions {
			s.fail("run %s is done: got report %+v and error %v, expected %d rows", id, report, err, simRows*simMessages*simPartitions)
		}
	}
	if done != len(manifests) {
		s.fail("%d runs are done, but there are %d versions", done, len(manifests))
	}
	if latest, err := p.Version(ctx, run.Latest); len(manifests) > 0 && (err != nil || slices.ContainsFunc(manifests, func(m schemas.Manifest) bool { return m.Version > latest.Version })) {
		s.fail("the latest version is %+v, %v", latest, err)
	}
	for _, m := range manifests {
		model, err := p.Model(ctx, m.Run)
		if err != nil {
			s.fail("version %d: %v", m.Version, err)
		} else if model.Digest() != m.WeightsDigest {
			s.fail("version %d has digest %s, its manifest says %s", m.Version, model.Digest(), m.WeightsDigest)
		}
	}
}
