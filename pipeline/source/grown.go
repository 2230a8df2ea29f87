package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// TwiceError says that the examples topic has rows of files, or their first ones, as another source too, which was read in another way: a
// chain learns all of the topic, and would learn them twice.
type TwiceError struct {
	Files      []string // that were to be ingested
	Topic      string   // the examples topic
	Source     string   // the id of the other source
	KnownFiles []string // what it was called
}

// Error names both, and what to do.
func (e *TwiceError) Error() string {
	return fmt.Sprintf("%s: its rows, or the first of them, are already on %s as source %s (%s), ingested with other keys, and a "+
		"chain would learn them twice: restore the keys under examples, or exclude one of the sources with `stagewise sources remove`",
		strings.Join(e.Files, ", "), e.Topic, wire.Digest(e.Source).Short(), strings.Join(e.KnownFiles, ", "))
}

// grown returns the seals of the sources that a source consists of, of which its own may be one: of a log file that has grown, those that
// its first rows have, as it was when they were ingested: its parts. If something was added since, it ingests that. It returns no seals,
// and ingests nothing, if there are no parts.
func (f *filesOf) grown(ctx context.Context, s ingest.Source, parts []*schemas.SourceSeal) (seals []*schemas.SourceSeal, err error) {
	if parts == nil {
		return nil, nil
	}
	for _, part := range parts {
		seal, err := f.present(ctx, ingest.Source{ID: part.ID, Split: s.Split, Files: part.Files})
		if err != nil || seal == nil {
			return nil, err // without it the file is ingested again, as one that has not grown
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

// begun returns the seals, on the topic or removed, whose rows a source's file begins with. The error is a *[heed.ForgottenError] if one of
// them is forgotten.
func (f *filesOf) begun(ctx context.Context, s ingest.Source) ([]*schemas.SourceSeal, error) {
	begun, err := s.Begun(ctx, f.sealed())
	for _, seal := range begun {
		if f.forgotten.Sources[seal.ID] {
			return nil, &heed.ForgottenError{Files: s.Files, Source: seal.ID, Topic: f.Topics.Forget}
		}
	}
	return begun, err
}

// checkOnce returns a *[TwiceError] if the topic has rows of a source in another one too. begun are those that its file begins with, and
// parts those that it consists of.
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
		e := &TwiceError{Files: s.Files, Topic: f.Topics.Examples, Source: other.ID, KnownFiles: other.Files}
		if f.job.Examples.CountsOnce() {
			return e
		}
		event.Notice(f.rec, "%v", e)
		return nil
	}
	return nil
}

// sealed returns the seals of all sources, removed ones too.
func (f *filesOf) sealed() (seals []*schemas.SourceSeal) {
	for id := range f.last.ledger.Sources() {
		seals = append(seals, f.last.ledger.Seals(id)...)
	}
	return append(seals, f.last.ledger.Removed()...)
}
