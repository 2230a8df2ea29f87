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
	latest  map[int]wire.Identity                   // by partition, the latest visit that has arrived, or the seal of a later stage
	arrived map[inboxVisit]int                      // number of records that have arrived
	ahead   int                                     // number of changes of latest by records of later stages

	doubleChunks wire.Collector[float64]
	singleChunks wire.Collector[float32]
}

// visit is what records of different partitions have in common.
type inboxVisit struct {
	kind          wire.Kind
	stage, number int
}

// newInbox returns an empty inbox.
func newInbox() inbox {
	return inbox{
		doubles: map[wire.Identity]*wire.Record[float64]{}, singles: map[wire.Identity]*wire.Record[float32]{},
		digests: map[wire.Identity]wire.Digest{}, latest: map[int]wire.Identity{},
		arrived: map[inboxVisit]int{},
	}
}

// Begin sets the current stage, and drops records of earlier stages.
func (b *inbox) Begin(stage int) {
	b.stage = stage
	maps.DeleteFunc(b.doubles, func(id wire.Identity, _ *wire.Record[float64]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.singles, func(id wire.Identity, _ *wire.Record[float32]) bool { return id.Stage < stage })
	maps.DeleteFunc(b.digests, func(id wire.Identity, _ wire.Digest) bool { return id.Stage < stage })
	maps.DeleteFunc(b.arrived, func(v inboxVisit, _ int) bool { return v.stage < stage })
}

// Arrived returns a number that changes when a record of a visit arrives, or when it may turn out that a record never will.
func (b *inbox) Arrived(kind wire.Kind, stage, number int) int {
	return b.arrived[inboxVisit{kind, stage, number}] + b.ahead
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

// last returns the latest visit of a partition that has arrived, or the seal of a later stage.
func (b *inbox) last(partition int) (id wire.Identity, any bool) {
	id, any = b.latest[partition]
	return id, any
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

// drop removes a record that is not needed because it is included in another record that was reduced.
func (b *inbox) drop(id wire.Identity) {
	delete(b.doubles, id)
	delete(b.singles, id)
}

// collect adds a message to its record, of the given partitions. A record has arrived when it is complete. A record in the
// wrong precision is never found, since gathering requests each identity in one precision only.
func (b *inbox) collect(codec protocol.Codec, id wire.Identity, partitions []int, m wire.Message) error {
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
	b.arrived[inboxVisit{id.Kind, id.Stage, id.Visit}]++
	b.noteVisit(id, partitions)
	return nil
}

// isSingle reports whether a record of the statistics is in single precision: samples, and the Gram matrices of blocks that
// workers sum in a stage's first visit. In double precision are the Gram matrices of the survey and of calibrations, and
// merged Gram matrices, sums of the partitions' matrices rounded to single precision.
func isSingle(id wire.Identity) bool {
	if id.Kind == statistics.KindSample {
		return true
	}
	return id.Kind == statistics.KindGram && id.Stage != wire.Survey && id.Visit == 0 && id.Merged == 0
}

// noteVisit records the latest visit of partitions, or the seal of a later stage, since the earlier visits may be deleted.
// Missing earlier records will then never arrive.
func (b *inbox) noteVisit(id wire.Identity, partitions []int) {
	for _, number := range partitions {
		last, any := b.latest[number]
		if id.Kind == statistics.KindVisit && (!any || last.Before(id)) || id.Kind == statistics.KindSeal && (!any || last.Stage < id.Stage) {
			b.latest[number] = id
			if id.Stage > b.stage {
				b.ahead++
			}
		}
	}
}
