package inbox

import (
	"fmt"
	"maps"

	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Inbox is the statistics that have come and are not reduced yet: of each identity the first complete record. [New]
// makes inboxes.
type Inbox struct {
	stage   int // the stage that is solved: records of earlier stages are not needed
	doubles map[wire.Identity]*wire.Record[float64]
	singles map[wire.Identity]*wire.Record[float32] // see isSingle
	digests map[wire.Identity]wire.Digest           // of all records that have come, reduced or not
	latest  map[int]wire.Identity                   // for each partition, the latest visit that has come, or the seal of a later stage

	doubleChunks wire.Collector[float64]
	singleChunks wire.Collector[float32]
}

// New returns an inbox in which nothing has come.
func New() Inbox {
	return Inbox{
		doubles: map[wire.Identity]*wire.Record[float64]{}, singles: map[wire.Identity]*wire.Record[float32]{},
		digests: map[wire.Identity]wire.Digest{}, latest: map[int]wire.Identity{},
	}
}

// Begin says that a stage is solved now, and drops what belongs to earlier stages.
func (b *Inbox) Begin(stage int) {
	b.stage = stage
	maps.DeleteFunc(b.doubles, func(id wire.Identity, _ *wire.Record[float64]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.singles, func(id wire.Identity, _ *wire.Record[float32]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.digests, func(id wire.Identity, _ wire.Digest) bool { return id.Stage < stage })
}

// Solves returns the stage that is solved.
func (b *Inbox) Solves() int { return b.stage }

// Count returns how many records of stages that are not solved have come.
func (b *Inbox) Count() int { return len(b.digests) }

// Digest returns the digest of a record that has come, reduced or not.
func (b *Inbox) Digest(id wire.Identity) (digest wire.Digest, come bool) {
	digest, come = b.digests[id]
	return digest, come
}

// Last returns the latest visit of a partition that has come, or the seal of a later stage.
func (b *Inbox) Last(partition int) (id wire.Identity, any bool) {
	id, any = b.latest[partition]
	return id, any
}

// Peek returns a record that has come and is not reduced yet, and keeps it; nil if there is none.
func (b *Inbox) Peek(id wire.Identity) *wire.Record[float64] { return b.doubles[id] }

// Has reports whether a record has come and is not reduced yet.
func (b *Inbox) Has(id wire.Identity) bool { return b.doubles[id] != nil || b.singles[id] != nil }

// Double returns a record of double precision that has come, and removes it; nil if there is none.
func (b *Inbox) Double(id wire.Identity) *wire.Record[float64] {
	r := b.doubles[id]
	delete(b.doubles, id)
	return r
}

// Single is double for a record of single precision.
func (b *Inbox) Single(id wire.Identity) *wire.Record[float32] {
	r := b.singles[id]
	delete(b.singles, id)
	return r
}

// Drop removes a record that has come and is not needed, as it is part of another that was reduced.
func (b *Inbox) Drop(id wire.Identity) {
	delete(b.doubles, id)
	delete(b.singles, id)
}

// Collect adds a message to those of its record, which is of partitions. A complete record has come. A record in the wrong precision
// never comes, as gathering asks for each identity in one precision only.
func (b *Inbox) Collect(codec codec.Codec, id wire.Identity, partitions []int, m wire.Message) error {
	if single := IsSingle(id); wire.IsSingle(m) != single {
		return fmt.Errorf("%w: the %v has the wrong precision", wire.ErrDamaged, id)
	} else if single {
		r, err := codec.CollectSingle(&b.singleChunks, m)
		if err != nil || r == nil {
			return err
		}
		b.singles[id] = r
	} else {
		r, err := codec.CollectDouble(&b.doubleChunks, m)
		if err != nil || r == nil {
			return err
		}
		b.doubles[id] = r
	}
	b.digests[id] = m.Digest()
	b.NoteVisit(id, partitions)
	return nil
}

// IsSingle reports whether a record of the statistics is in single precision: samples, and the Gram matrices of blocks, which
// workers sum in a stage's first visit. The Gram matrices of the survey and of calibrations are in double precision, and those that are
// sums of matrices of partitions, each rounded to single precision.
func IsSingle(id wire.Identity) bool {
	return id.Kind == statistics.KindSample || id.Kind == statistics.KindGram && id.Stage != wire.Survey && id.Visit == 0 && id.Merged == 0
}

// NoteVisit notes the latest visit of partitions, or the seal of a later stage, as the visits may be gone. Records
// that belong before it and have not come never will.
func (b *Inbox) NoteVisit(id wire.Identity, partitions []int) {
	for _, number := range partitions {
		last, any := b.latest[number]
		visit := id.Kind == statistics.KindVisit || id.Kind == statistics.KindRows
		if visit && (!any || last.Before(id)) || id.Kind == statistics.KindSeal && (!any || last.Stage < id.Stage) {
			b.latest[number] = id
		}
	}
}
