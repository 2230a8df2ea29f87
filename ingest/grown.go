package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// idOf returns the ID that the source has if its files have the given digests, and its first after rows belong to other sources.
func (s *Source) idOf(after int64, digests ...wire.Digest) string {
	return string(wire.DigestJSON(identity{digests, s.format.Name, s.reading, after}))
}

// isFile reports whether the source is a single file, other than a directory or archive of images.
func (s *Source) isFile() bool { return len(s.stored) == 1 && !s.format.ReadsFolders }

// Begun returns the seals whose files are the source's file or a prefix of it, because a log file has grown since it was
// ingested. It reads the file once.
func (s *Source) Begun(ctx context.Context, seals []*schemas.SourceSeal) (begun []*schemas.SourceSeal, err error) {
	if !s.isFile() {
		return nil, nil
	}
	var lengths []int64
	for _, seal := range seals {
		if seal.Bytes > 0 && seal.Bytes <= s.stored[0].bytes && seal.Split == s.Split.String() {
			begun, lengths = append(begun, seal), append(lengths, seal.Bytes)
		}
	}
	if len(begun) == 0 {
		return nil, nil
	}
	slices.Sort(lengths)
	digests, err := s.digestsUntil(ctx, slices.Compact(lengths))
	if err != nil {
		return nil, input.WholeFile(s.Files[0], err)
	}
	return slices.DeleteFunc(begun, func(seal *schemas.SourceSeal) bool { return digests[seal.Bytes] != seal.Content }), nil
}

// digestsUntil returns the digests of prefixes of the source's file, with the given sorted lengths.
func (s *Source) digestsUntil(ctx context.Context, lengths []int64) (map[int64]wire.Digest, error) {
	file, err := s.options.open(s.opened[0])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	digests, sum, read := map[int64]wire.Digest{}, sha256.New(), int64(0)
	for _, length := range lengths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := io.CopyN(sum, file, length-read)
		if read += n; err != nil {
			return nil, err
		}
		digests[length] = wire.Digest(hex.EncodeToString(sum.Sum(nil)))
	}
	return digests, nil
}

// Parts returns the seals of the sources that the source's file starts with, if they were read like the source, in row
// order: that of the file as first ingested, then those of added rows. begun are those of Begun. It returns nil if there
// are none, or some are missing.
func (s *Source) Parts(begun []*schemas.SourceSeal) (parts []*schemas.SourceSeal) {
	own := func(seal *schemas.SourceSeal) bool { return seal.ID == s.idOf(seal.After, seal.Content) }
	longest := int64(0)
	for _, seal := range begun {
		if own(seal) {
			longest = max(longest, seal.Bytes)
		}
	}
	ends := func(seal *schemas.SourceSeal) bool { return own(seal) && seal.Bytes == longest }
	for {
		i := slices.IndexFunc(begun, ends)
		if i < 0 {
			return nil
		}
		parts = append(parts, begun[i])
		at := begun[i]
		if at.After == 0 {
			slices.Reverse(parts)
			return parts
		}
		ends = func(seal *schemas.SourceSeal) bool {
			return own(seal) && seal.Bytes < at.Bytes && seal.After+seal.Rows == at.After
		}
	}
}

// Rest returns the source of the file's rows after those of earlier sources. last is the seal of the last of these. ok is
// false if there are no further rows. If the last row was incomplete when it was ingested, or the file is compressed, it
// returns a *input.Error.
func (s *Source) Rest(last *schemas.SourceSeal) (rest Source, ok bool, err error) {
	if last.Bytes == s.stored[0].bytes {
		return rest, false, nil
	}
	begins := fmt.Sprintf("the file begins with the bytes of %s, which is already ingested as source %s", last.Files,
		wire.Digest(last.ID).Short())
	advice := "exclude that source with `stagewise sources remove`, so that its rows count once"
	switch {
	case s.stored[0].compressed:
		return rest, false, input.WholeFile(s.Files[0], fmt.Errorf("%s: rows added to a compressed file can't be ingested "+
			"separately: decompress it, or %s", begins, advice))
	case !s.format.IsText:
		return rest, false, input.WholeFile(s.Files[0], fmt.Errorf("%s: rows added to a file in the format %s can't be ingested "+
			"separately: write them to another file, or %s", begins, s.format.Name, advice))
	}
	file, err := s.options.open(s.opened[0])
	if err != nil {
		return rest, false, input.WholeFile(s.Files[0], err)
	}
	defer file.Close()
	whole, err := input.EndsRow(file, last.Bytes)
	if err != nil {
		return rest, false, input.WholeFile(s.Files[0], err)
	}
	if !whole {
		return rest, false, input.WholeFile(s.Files[0], fmt.Errorf("%s: its last row was incomplete: %s", begins, advice))
	}
	rest = *s
	rest.after = last.After + last.Rows
	rest.ID = rest.idOf(rest.after, s.stored[0].digest)
	return rest, true, nil
}
