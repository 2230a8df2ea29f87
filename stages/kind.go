// Package stages turns a batch of examples, and the predictions of the previous stage, into a block of features:
//
//	raw rows ──Preparation──▶ inputs ──Map──▶ block
//
// A [Map] computes features of one kind; kind.go defines kinds and lists all of them. All random numbers derive from
// the seed of the plan through the generator in draw.go. So a block is a pure function of the plan, the survey, the
// stage and the rows: it can be discarded and recomputed, in this process or in another.
package stages

import (
	"errors"
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Kind is a way to compute features from inputs: its name, traits, documentation, the keys that it reads, and its arithmetic. To add
// one, write a function that returns it in a file of its own, and add a line to kinds. The zero value is the kind of an unknown name.
type Kind struct {
	Suits      []Examples // examples for which the kind is tried by default
	Opens      bool       // a block of the kind is tried before trees
	Scaled     bool       // the features depend on the units of inputs
	Sparse     bool       // sparse inputs are features of the kind, if it takes all of them
	OnlySparse bool       // the kind does not support dense inputs
	Counted    bool       // weights are computed from counts, so that inputs must not be negative: see [Map.Counted]
	InBlocks   bool       // blocks of Features.Size inputs are fitted one at a time: see [Map.FittedAtATime]
	Grown      bool       // features are leaves of trees, which are grown before the first visit to their stage

	name     string
	meaning  string       // Markdown, for the documentation of the key `kind`
	keys     []option.Key // the keys that the kind reads, with their meanings for it
	minSize  int          // the minimum size in a configuration
	pixels   bool         // each feature derives from raw features, so the preparation must not mix them
	products bool         // features are products, which may overflow when the inputs do not

	// fits returns the keys of this kind that conflict with each other. Nil means that no keys conflict.
	fits func(schemas.Features) []option.Problem
	// defaults changes the package's defaults for this kind. Nil changes nothing.
	defaults func(*schemas.Features)
	// describe returns a one-line description, such as "1024 rff bandwidth 2".
	describe func(schemas.Features) string
	// blockSize returns p, the number of features for the given number of inputs, or a *[SizeError]. Nil means that p
	// is Features.Size.
	blockSize func(f schemas.Features, inputs int) (int, error)
	// draw makes all random draws of a map. Nil for a kind with read, or for sparse inputs only.
	draw func(m *Map) drawn
	// learn computes the tensors that the features learn from the survey's sample, for the survey's result. read reads
	// these tensors, and returns the same function as draw. Both are nil for a kind that learns nothing.
	learn func(l Learner, f schemas.Features, stage int, prepared *Preparation) (wire.Tensors[float32], error)
	read  func(m *Map, prepared *Preparation) (func() drawn, error)
}

// drawn is the features of a map after its random draws.
type drawn struct {
	expand expander
	// node adds the p features of the prepared inputs x to a graph.
	node func(g *onnx.Graph, x onnx.Value) onnx.Value
	// slopes computes the slopes of the features. Nil means that the kind does not support them.
	slopes slopes
}

// An expander writes the p features of each row of x (n × m) into the first p columns of dst (n × [Map.Size]). The
// other columns are unspecified: [Map.Expand] overwrites them. It may reshape scratch, which belongs to the caller, and
// is safe for concurrent use with different dst and scratch.
type expander func(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, x kernel.Dense)

// kinds yields all kinds, in the order of the documentation. It creates them lazily, so that a search creates no more
// than it needs.
func kinds(yield func(Kind) bool) {
	for _, made := range []func() Kind{
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

// KindOf returns the kind of features; zero for an unknown name.
func KindOf(f schemas.Features) Kind {
	for k := range kinds {
		if k.name == f.Kind {
			return k
		}
	}
	return Kind{}
}

// mustKindOf is [KindOf] for features that pass [Check].
func mustKindOf(f schemas.Features) Kind {
	k := KindOf(f)
	if k.name == "" {
		panic("stages: unknown kind of features " + f.Kind)
	}
	return k
}

// Names returns the names of the kinds with a trait, in the order of the documentation.
func Names(has func(Kind) bool) (names []string) {
	for k := range kinds {
		if has(k) {
			names = append(names, k.name)
		}
	}
	return names
}

// Learns reports whether features depend on the survey's sample.
func (k Kind) Learns() bool { return k.learn != nil }

// Drawn reports whether features differ between stages, because they are drawn or learnt from draws: averaging models
// of such features pays.
func Drawn(f schemas.Features) bool {
	k := KindOf(f)
	return (k.draw != nil || k.learn != nil || k.Grown) && !(k.Sparse && f.Size == 0)
}

// Examples is the type of examples, which determines suitable features.
type Examples int

const (
	Vectors    Examples = iota // rows of numbers without names
	Tables                     // rows with named columns
	SparseRows                 // rows of mostly zeros, such as texts
	Images                     // rows of pixels
)

// Defaults returns the features of a stage without configured features.
func Defaults() schemas.Features {
	return schemas.Features{Kind: RFF, Size: 1024, BandwidthScale: 1, Degree: 2}
}

// DefaultsOf returns the features of a stage whose configuration only names their kind. For an unknown kind it returns
// [Defaults], and [Check] reports the name.
func DefaultsOf(name string) schemas.Features {
	f := Defaults()
	if k := KindOf(schemas.Features{Kind: name}); k.name != "" {
		f.Kind = name
		if k.defaults != nil {
			k.defaults(&f)
		}
	}
	return f
}

// Describe returns a one-line description of features that [Check] accepts, such as "1024 rff bandwidth 2".
func Describe(f schemas.Features) string { return mustKindOf(f).describe(f) }

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

// ErrNoImages means that features require images, but the shape of the examples is unknown.
var ErrNoImages = errors.New("features of kind patches need images, but neither the examples nor the configuration " +
	"has their shape: set examples.image to height, width and channels, such as [28, 28, 1]")

// Learner is the input of features that learn from data: the survey's sample of examples. Package pipeline provides it.
type Learner struct {
	BLAS *kernel.BLAS
	Seed uint64
	Rows kernel.Dense // the sample, prepared (n × m)
	// Covariance returns the mean of rows (n × q), and their covariance (q × q).
	Covariance func(blas *kernel.BLAS, x kernel.Dense) (mean []float32, covariance []float64)
	// Whiten returns (C + ridge·I)^−½ (n × n) of a covariance C (n × n, row-major).
	Whiten func(covariance []float64, n int, ridge float64) ([]float32, error)
}

// Learn returns what the features of a stage learn from the survey's sample, for the survey's result; nil for features
// that learn nothing. prepared need not have the tensors of any stage. f must pass [Check].
func (l Learner) Learn(f schemas.Features, stage int, prepared *Preparation) (wire.Tensors[float32], error) {
	if k := mustKindOf(f); k.learn != nil {
		return k.learn(l, f, stage, prepared)
	}
	return nil, nil
}
