package ingest

import (
	"hash/fnv"

	"github.com/stagewise/stagewise/schemas"
)

// hashedVocabulary gives a phrase the column that its hash says, FNV-1a of 64 bits (RFC 9923), modulo their number. So no file has to be read first,
// and no list of words kept (Weinberger et al. 2009).
func hashedVocabulary() vocabulary {
	return vocabulary{
		name:    "hashed",
		meaning: "a hash says which of `columns` a word has, and words that share one count as one",
		most:    schemas.MaxColumns,
		open: func(o Options) func(phrase []byte) (int32, bool) {
			hash, columns := fnv.New64a(), uint64(o.Words.Columns)
			return func(phrase []byte) (int32, bool) {
				hash.Reset()
				hash.Write(phrase) // it returns no error
				return int32(hash.Sum64() % columns), true
			}
		},
	}
}
