package vocabulary

import (
	"hash/fnv"

	"github.com/stagewise/stagewise/schemas/examples"
)

// HashedVocabulary assigns a column to a phrase by its hash, FNV-1a of 64 bits (RFC 9923), modulo the number of columns.
// So no file has to be read first, and no list of words is kept (Weinberger et al. 2009).
func HashedVocabulary() vocabulary {
	return vocabulary{
		Name:    "hashed",
		meaning: "a hash assigns each word to one of `columns`",
		most:    examples.MaxColumns,
		open: func(how Options) func(phrase []byte) (int32, bool) {
			hash, columns := fnv.New64a(), uint64(how.Columns)
			return func(phrase []byte) (int32, bool) {
				hash.Reset()
				hash.Write(phrase) // never fails
				return int32(hash.Sum64() % columns), true
			}
		},
	}
}
