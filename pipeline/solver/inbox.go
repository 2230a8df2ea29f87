package solver

import (
	"fmt"
	"maps"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// inbox buffers statistics until they are reduced: the first complete record of each identity. Create inboxes with [newInbox].
type inbox struct {
	stage   int // current stage: records of earlier stages are not needed
	doubles map[wire.Identity]*wire.Record[float64]
	singles map[wire.Identity]*wire.Record[float32] // see isSingle
	digests map[wire.Identity]wire.Digest           // of all records that have arrived, reduced or not
	latest  map[int]wire.Identity                   // by share, the latest visit that has arrived, or the seal of a later stage

	doubleChunks wire.Collector[float64]
	singleChunks wire.Collector[float32]
}

// newInbox returns an empty inbox.
func newInbox() inbox {
	return inbox{
		doubles: map[wire.Identity]*wire.Record[float64]{}, singles: map[wire.Identity]*wire.Record[float32]{},
		digests: map[wire.Identity]wire.Digest{}, latest: map[int]wire.Identity{},
	}
}

// Begin sets the current stage, and drops records of earlier stages.
func (b *inbox) Begin(stage int) {
	b.stage = stage
	maps.DeleteFunc(b.doubles, func(id wire.Identity, _ *wire.Record[float64]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.singles, func(id wire.Identity, _ *wire.Record[float32]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.digests, func(id wire.Identity, _ wire.Digest) bool { return id.Stage < stage })
}

// solves returns the current stage.
func (b *inbox) solves() int { return b.stage }

// count returns the number of records of unsolved stages that have arrived.
func (b *inbox) count() int { return len(b.digests) }

// digest returns the digest of a record that has arrived, reduced or not.
func (b *inbox) digest(id wire.Identity) (digest wire.Digest, come bool) {
	digest, come = b.digests[id]
	return digest, come
}

// has reports whether a record has arrived, reduced or not.
func (b *inbox) has(id wire.Identity) bool {
	_, come := b.digests[id]
	return come
}

// Has reports whether a record is buffered.
func (b *inbox) Has(id wire.Identity) bool { return b.doubles[id] != nil || b.singles[id] != nil }

// double removes and returns a buffered record in double precision; nil if there is none.
func (b *inbox) double(id wire.Identity) *wire.Record[float64] {
	r := b.doubles[id]
	delete(b.doubles, id)
	return r
}

// single is double for single precision.
func (b *inbox) single(id wire.Identity) *wire.Record[float32] {
	r := b.singles[id]
	delete(b.singles, id)
	return r
}

// collect adds a message to its record. A record has arrived when it is complete. A record in the
// wrong precision is never found, since gathering requests each identity in one precision only.
func (b *inbox) collect(codec protocol.Codec, id wire.Identity, m wire.Message) error {
	if single := isSingle(id); wire.IsSingle(m) != single {
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
	b.noteVisit(id)
	return nil
}

// isSingle reports whether a record of the statistics is in single precision: samples, and the Gram matrices of blocks of
// stages.
func isSingle(id wire.Identity) bool {
	return id.Kind == statistics.KindSample || id.Kind == statistics.KindGram
}

// noteVisit records the latest visit of a share, or the seal of a later stage, since the earlier visits may be deleted. Missing
// earlier records will then never arrive.
func (b *inbox) noteVisit(id wire.Identity) {
	last, any := b.latest[id.Partition]
	if id.Kind == statistics.KindVisit && (!any || last.Before(id)) || id.Kind == statistics.KindSeal && (!any || last.Stage < id.Stage) {
		b.latest[id.Partition] = id
	}
}
