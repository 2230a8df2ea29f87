package stages

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// Gradient is the kind of features that are all inputs of sparse rows, fitted block by block.
const Gradient = "gradient"

func gradient() Kind {
	return Kind{
		name: Gradient,
		meaning: "the inputs of sparse rows, fitted in blocks: every 33rd pass selects the inputs with the largest gradient, and the 32 that " +
			"follow fit them",
		keys: []option.Key{
			{Name: "size", Meaning: "inputs of a block (its default is 1000)"},
			{Name: "rounds", Rule: option.Whole(0, 0), Meaning: "maximum number of rounds, each of which fits every input once; 0: as many " +
				"as `passes` allow, the default if that key is set"},
		},
		minSize:    1,
		Sparse:     true,
		OnlySparse: true,
		InBlocks:   true,
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
