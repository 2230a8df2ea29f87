package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// A kind is one way to make features from inputs. Each kind is one value in a file of its own, which holds its name, its
// documentation, the keys it reads, and its arithmetic. To add a kind, write that file and add a line to kinds.
type kind struct {
	name    string
	meaning string // Markdown, for the documentation of the key `kind`
	keys    []key  // the keys that the kind reads, with what each means to it
	sparse  bool   // sparse inputs are features of the kind, if it takes all of them
	minSize int    // the smallest size that a configuration may ask for
	pixels  bool   // the features are made of each raw feature, so the preparation must not mix them

	suits  []Examples // which examples the kind is tried for, if nobody names one
	opens  bool       // a block of it is worth a try before trees
	scaled bool       // the features depend on the units of inputs

	onlySparse bool // dense inputs are no features of the kind
	counted    bool // weights are counted, and not fitted: see [Map.Counted]
	inBlocks   bool // Features.Size inputs are fitted at a time: see [Map.FittedAtATime]
	grown      bool // features are leaves of trees: see [Grown]
	products   bool // features are products, which may overflow where the inputs do not

	// defaults changes the package's defaults where this kind has others. Nil changes nothing.
	defaults func(*schemas.Features)
	// describe returns one line for people, such as "1024 rff bandwidth 2".
	describe func(schemas.Features) string
	// blockSize returns p, the number of features for that number of inputs, or a *[SizeError]. Nil means that p is
	// Features.Size.
	blockSize func(f schemas.Features, inputs int) (int, error)
	// draw makes all random draws of a map. Nil for a kind that has read, or only sparse inputs.
	draw func(m *Map) drawn
	// learn finds what the features depend on beside the draws in the survey's sample, for the survey's result. read reads it there, and
	// returns a function as draw. Both are nil for a kind that learns nothing.
	learn func(l Learner, f schemas.Features, stage int, prepared *prepare.Preparation) (wire.Tensors[float32], error)
	read  func(m *Map, prepared *prepare.Preparation) (func() drawn, error)
}

// drawn is the features of a map after its random draws.
type drawn struct {
	expand expander
	// node adds the p features of the prepared inputs x to a graph.
	node func(g *onnx.Graph, x onnx.Value) onnx.Value
}

// An expander writes the p features of each row of x (n × m) into the first p columns of dst (n × [Map.Size]). It may write
// anything into the other columns: [Map.Expand] overwrites them. It may reshape scratch, which belongs to the caller, and is
// safe for concurrent use with different dst and scratch.
type expander func(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, x kernel.Dense)

// A key is a key under `features` as one kind reads it.
type key struct {
	option.Key
	// value and valid read the key's value and check its range, and want describes that range. The range is the same for
	// every kind that reads the key. A nil valid allows every value.
	value func(schemas.Features) any
	valid func(schemas.Features) bool
	want  string
}

// kinds are all kinds, in the order of the documentation. A kind is made when it is asked for: whoever has found one asks for no more.
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

// Defaults returns the features of a stage whose configuration does not mention features.
func Defaults() schemas.Features {
	return schemas.Features{Kind: RFF, Size: 1024, BandwidthScale: 1, Degree: 2}
}

// DefaultsOf returns the features of a stage whose configuration only names their kind. For a name that is no kind it returns
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

// Describe returns one line for people about features that [Check] accepts, such as "1024 rff bandwidth 2".
func Describe(f schemas.Features) string {
	k, ok := find(f.Kind)
	if !ok {
		panic("stages: unknown kind of features " + f.Kind)
	}
	return k.describe(f)
}

// bandwidthScale is the key of that name. Its range is the same for all kinds, its meaning is not.
func bandwidthScale(meaning string) key {
	return key{
		Key:   option.Key{Name: "bandwidth_scale", Meaning: meaning},
		value: func(f schemas.Features) any { return f.BandwidthScale },
		valid: func(f schemas.Features) bool { return f.BandwidthScale > 0 && !math.IsInf(f.BandwidthScale, 1) },
		want:  "a number > 0",
	}
}

// describeBandwidth describes a kind whose features approximate a kernel.
func describeBandwidth(f schemas.Features) string {
	return fmt.Sprintf("%d %s bandwidth %g", f.Size, f.Kind, f.BandwidthScale)
}
