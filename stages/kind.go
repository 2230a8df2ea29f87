package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// A kind is one way to compute features from inputs. Each kind is one value in a file of its own, with its name, its
// documentation, the keys it reads, and its arithmetic. To add a kind, write that file and add a line to kinds.
type kind struct {
	name    string
	meaning string       // Markdown, for the documentation of the key `kind`
	keys    []option.Key // the keys that the kind reads, with their meanings for it
	sparse  bool         // sparse inputs are features of the kind, if it takes all of them
	minSize int          // the minimum size in a configuration
	pixels  bool         // each feature derives from raw features, so the preparation must not mix them

	suits  []Examples // examples for which the kind is tried by default
	opens  bool       // a block of it is worth a try before trees
	scaled bool       // the features depend on the units of inputs

	onlySparse bool // the kind does not support dense inputs
	counted    bool // weights are computed from counts: see [Map.Counted]
	inBlocks   bool // blocks of Features.Size inputs are fitted one at a time: see [Map.FittedAtATime]
	grown      bool // features are leaves of trees: see [Grown]
	products   bool // features are products, which may overflow when the inputs do not

	// fits returns what is wrong with keys of this kind beside each other. Nil: nothing.
	fits func(schemas.Features) []option.Problem
	// defaults changes the package's defaults for this kind. Nil changes nothing.
	defaults func(*schemas.Features)
	// describe returns one line for people, such as "1024 rff bandwidth 2".
	describe func(schemas.Features) string
	// blockSize returns p, the number of features for the given number of inputs, or a *[SizeError]. Nil means that p
	// is Features.Size.
	blockSize func(f schemas.Features, inputs int) (int, error)
	// draw makes all random draws of a map. Nil for a kind with read, or for sparse inputs only.
	draw func(m *Map) drawn
	// learn computes what the features learn from the survey's sample besides the draws, for the survey's result. read
	// reads that, and returns the same function as draw. Both are nil for a kind that learns nothing.
	learn func(l Learner, f schemas.Features, stage int, prepared *prepare.Preparation) (wire.Tensors[float32], error)
	read  func(m *Map, prepared *prepare.Preparation) (func() drawn, error)
}

// drawn is the features of a map after its random draws.
type drawn struct {
	expand expander
	// node adds the p features of the prepared inputs x to a graph.
	node func(g *onnx.Graph, x onnx.Value) onnx.Value
	// slopes are those of the features. Nil means that the features have none that columns explain.
	slopes slopes
}

// An expander writes the p features of each row of x (n × m) into the first p columns of dst (n × [Map.Size]). The
// other columns are unspecified: [Map.Expand] overwrites them. It may reshape scratch, which belongs to the caller, and
// is safe for concurrent use with different dst and scratch.
type expander func(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, x kernel.Dense)

// kinds are all kinds, in the order of the documentation. Kinds are created lazily, so that a search creates no more
// than it needs.
func kinds(yield func(kind) bool) {
	for _, made := range []func() kind{
		rff,
		sorf,
		logits,
		polynomial,
		columns,
		gradient,
		classCounts,
		patches,
		patchPolynomial,
		trees,
	} {
		if !yield(made()) {
			return
		}
	}
}

func find(name string) (kind, bool) {
	for k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// Defaults returns the features of a stage without configured features.
func Defaults() schemas.Features {
	return schemas.Features{Kind: RFF, Size: 1024, BandwidthScale: 1, Degree: 2}
}

// DefaultsOf returns the features of a stage whose configuration only names their kind. For an unknown kind it returns
// [Defaults], and [Check] reports the name.
func DefaultsOf(name string) schemas.Features {
	f := Defaults()
	if k, ok := find(name); ok {
		f.Kind = k.name
		if k.defaults != nil {
			k.defaults(&f)
		}
	}
	return f
}

// Describe returns a one-line description of features that [Check] accepts, such as "1024 rff bandwidth 2".
func Describe(f schemas.Features) string {
	k, ok := find(f.Kind)
	if !ok {
		panic("stages: unknown kind of features " + f.Kind)
	}
	return k.describe(f)
}

// bandwidthScale is the key of that name. Its range is the same for all kinds, its meaning is not.
func bandwidthScale(meaning string) option.Key {
	return option.Key{Name: "bandwidth_scale", Meaning: meaning, Rule: positive()}
}

// positive allows finite numbers above 0.
func positive() option.Rule {
	return option.Range(math.SmallestNonzeroFloat64, math.MaxFloat64, "a number > 0")
}

// describeBandwidth describes a kind whose features approximate a kernel.
func describeBandwidth(f schemas.Features) string {
	return fmt.Sprintf("%d %s bandwidth %g", f.Size, f.Kind, f.BandwidthScale)
}
