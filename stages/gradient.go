package stages

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas"
)

// Gradient is the kind of features that are all inputs of sparse rows, fitted a block of them at a time.
const Gradient = "gradient"

func gradient() kind {
	return kind{
		name: Gradient,
		meaning: "the inputs of sparse rows themselves, fitted a block at a time with the Gram matrix of the block: a pass in 33 finds those with the largest gradient, by their own norm, of the " +
			"inputs that have not had their turn, and each of the others fits a block of them. When all have had their turn, another round begins",
		keys: []key{
			{Key: schemas.Key{Name: "size", Meaning: "inputs of a block (its default is 1000)"}},
			{
				Key:   schemas.Key{Name: "rounds", Meaning: "how often each input has its turn, at most; 0: as often as `passes` allow, which is the default with that key"},
				value: func(f schemas.Features) any { return f.Rounds },
				valid: func(f schemas.Features) bool { return f.Rounds >= 0 },
				want:  "a whole number ≥ 0",
			},
		},
		minSize:    1,
		sparse:     true,
		onlySparse: true,
		inBlocks:   true,
		defaults:   func(f *schemas.Features) { f.Size = 1000 },
		describe: func(f schemas.Features) string {
			text := fmt.Sprintf("all columns in blocks of %d by %s", f.Size, f.Kind)
			if f.Rounds > 0 {
				text += fmt.Sprintf(", %d rounds", f.Rounds)
			}
			return text
		},
		blockSize: func(_ schemas.Features, inputs int) (int, error) { return inputs, nil },
	}
}
