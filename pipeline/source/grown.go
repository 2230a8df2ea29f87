package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// grown returns the seals of the sources that make up a source, possibly including its own: for a log file that has grown,
// the seals of its parts, the file at earlier times. It ingests rows that were added since. Without parts, it returns no
// seals and ingests nothing.
func (f *filesOf) grown(ctx context.Context, s ingest.Source, parts []*schemas.SourceSeal) (seals []*schemas.SourceSeal, err error) {
	if parts == nil {
		return nil, nil
	}
	for _, part := range parts {
		seal, err := f.present(ctx, ingest.Source{ID: part.ID, Split: s.Split, Files: part.Files})
		if err != nil || seal == nil {
			return nil, err // without it, the file is ingested as one that has not grown
		}
		seals = append(seals, seal)
	}
	rest, more, err := s.Rest(parts[len(parts)-1])
	if err != nil || !more {
		return seals, err
	}
	event.Notice(f.rec, "%s begins with the rows of %s, which are already ingested: ingesting the added rows", strings.Join(s.Files, ", "),
		strings.Join(parts[0].Files, ", "))
	seal, err := f.publish(ctx, rest)
	if err != nil {
		return nil, err
	}
	return append(seals, seal), nil
}

// begun returns the seals, current or removed, of sources whose rows are the first rows of a source's file. It returns an error if
// one of them is forgotten.
func (f *filesOf) begun(ctx context.Context, s ingest.Source) ([]*schemas.SourceSeal, error) {
	begun, err := s.Begun(ctx, f.sealed())
	for _, seal := range begun {
		if f.forgotten.Sources[seal.ID] {
			return nil, f.isForgotten(s, seal.ID)
		}
	}
	return begun, err
}

// checkOnce returns an error if the topic has rows of a source, or the first of them, in another one too, which was read differently: a
// chain trains on the whole topic, and so twice on these rows. begun are the sources whose rows its file starts with, and parts those
// that it consists of.
func (f *filesOf) checkOnce(ctx context.Context, s ingest.Source, begun, parts []*schemas.SourceSeal) error {
	for _, other := range begun {
		if other.ID == s.ID || slices.ContainsFunc(parts, func(part *schemas.SourceSeal) bool { return part.ID == other.ID }) {
			continue
		}
		seal, err := SealOf(ctx, f.Pipeline, f.last.ledger, f.staying, other.ID)
		if err != nil {
			return err
		}
		if seal == nil {
			continue
		}
		twice := fmt.Errorf("%s: its rows, or the first of them, are already on %s as source %s (%s), ingested with other keys, and a "+
			"chain would learn them twice: restore the keys under examples, or exclude one of the sources with `stagewise sources remove`",
			strings.Join(s.Files, ", "), f.Topics.Examples, wire.Digest(other.ID).Short(), strings.Join(other.Files, ", "))
		if f.job.Examples.Once {
			return twice
		}
		event.Notice(f.rec, "%v", twice)
		return nil
	}
	return nil
}

// sealed returns the seals of all sources, including removed ones.
func (f *filesOf) sealed() (seals []*schemas.SourceSeal) {
	for id := range f.last.ledger.Sources() {
		seals = append(seals, f.last.ledger.Seals(id)...)
	}
	return append(seals, f.last.ledger.Removed()...)
}
