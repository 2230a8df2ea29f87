package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// parts are what New makes a model of.
type parts struct {
	manifest    *schemas.Manifest
	preparation wire.Tensors[float32]
	weights     [][]*schemas.Weights
}

func (p *parts) model() (*Model, error) { return New(p.manifest, p.preparation, p.weights) }

// synthetic returns the parts of a model of random weights: one stage for each link, of features of some kind made of d raw
// features. The first has an intercept; later ones have the previous predictions as features. Three classes.
func synthetic(t testing.TB, kind string, d, components int, links ...schemas.Link) *parts {
	t.Helper()
	return syntheticMembers(t, kind, d, components, 1, links...)
}

// syntheticMembers returns the parts of a model of several members, each of which has a stage for each link.
func syntheticMembers(t testing.TB, kind string, d, components, members int, links ...schemas.Link) *parts {
	t.Helper()
	var list []schemas.Stage
	for i, l := range links {
		features := stages.DefaultsOf(kind)
		if kind != "columns" {
			features.Size = 5
		}
		list = append(list, schemas.Stage{Features: features, Link: l, Scores: i > 0})
	}
	plan := &schemas.Plan{Prepare: schemas.Prepare{Scale: stages.ScaleStandard, PCA: components}, Intercept: true}
	return syntheticStages(t, plan, d, members, oracle.Table{}, list)
}

// binsOf returns the tensors of a table in the survey's result.
func binsOf(t oracle.Table) wire.Tensors[float32] {
	bins, edges := t.Bins()
	return wire.Tensors[float32]{wire.Matrix(statistics.TensorBins, len(t.Features), 2, bins), wire.Vector(statistics.TensorEdges, edges)}
}

// syntheticStages returns the parts of a model of several members, each of which has these stages of d raw features, or of those of a table
// if there is one. What the plan lacks is set.
func syntheticStages(t testing.TB, plan *schemas.Plan, d, members int, table oracle.Table, list []schemas.Stage) *parts {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(d)))
	draw := normals(random)
	plan.Name, plan.Segment, plan.Seed, plan.Stages = "synthetic", 16, 3, list
	labels := []string{"a", "b", "c"}
	p := &parts{
		manifest: &schemas.Manifest{Name: plan.Name, Version: 1, Run: "run", Plan: plan, Labels: labels},
		preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, draw(d, 1)), wire.Vector(statistics.TensorScale, draw(d, 1)),
			wire.Vector(statistics.TensorSpread, []float32{float32(d)}), wire.Words[float32](statistics.TensorLabels, labels),
		},
	}
	if components := plan.Prepare.PCA; components > 0 {
		p.preparation = append(p.preparation, wire.Matrix(statistics.TensorBasis, d, components, draw(d*components, 1)))
	}
	if len(table.Features) > 0 {
		p.preparation = append(p.preparation, binsOf(table)...)
	}
	if members > 1 {
		plan.Stages, plan.Average = slices.Repeat(plan.Stages, members), members
	}
	p.fit(t, random, table)
	return p
}

// fit draws the trees of a table and the weights of all stages, of the size that training gives them, and returns the model. A learnt link
// has two passes.
func (p *parts) fit(t testing.TB, random *rand.Rand, table oracle.Table) *Model {
	t.Helper()
	draw, plan, k := normals(random), p.manifest.Plan, len(p.manifest.Labels)
	prepared := assert.Must(stages.NewPreparation(plan.Prepare, p.preparation))(t)
	for i := range plan.Stages {
		stage := assert.Must(NewStage(plan, i, prepared))(t)
		var list []*schemas.Weights
		if leaves := stage.Features.Leaves(); leaves > 0 {
			list = append(list, &schemas.Weights{Identity: wire.Identity{Kind: schemas.KindStructure, Run: "run", Stage: i},
				Tensors: stages.StructureOf(table.Forest(random, leaves, stage.Features.Trees()))})
		}
		passes, size := 1, stage.Features.Size()
		if stage.Link.Learnt {
			passes = 2
		}
		for n := range passes {
			w := &schemas.Weights{
				Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Stage: i, Visit: n},
				Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, size, k, draw(size*k, 1/math.Sqrt(float64(size))))},
			}
			if stage.Link.Learnt {
				inputs := stage.Basis.Len() * k
				w.Tensors = append(w.Tensors, wire.Matrix(statistics.TensorCalibration, inputs, k, draw(inputs*k, 0.5/math.Sqrt(float64(k)))))
			}
			list = append(list, w)
		}
		p.weights = append(p.weights, list)
		p.manifest.Blocks = append(p.manifest.Blocks, schemas.BlockDigest{Stage: i, Passes: passes})
	}
	m := assert.Must(p.model())(t)
	p.manifest.WeightsDigest = m.Digest()
	return m
}

// everyLink is a stage of each link, and each link as the last.
var everyLink = [][]schemas.Link{
	{link.Softmax}, {link.Identity}, {link.Calibrated},
	{link.Softmax, link.Calibrated, link.Identity}, {link.Identity, link.Softmax}, {link.Identity, link.Softmax, link.Calibrated},
}

// rowsOf returns dense rows.
func rowsOf(x kernel.Dense) *examples.Rows {
	return &examples.Rows{Rows: x.Rows, Cols: x.Cols, Floats: x.Data}
}

// raw returns n rows of d features, some of them missing.
func raw(n, d int) kernel.Dense {
	random, x := rand.New(rand.NewPCG(uint64(n), uint64(d))), kernel.NewDense(n, d)
	for i := range x.Data {
		if x.Data[i] = float32(random.NormFloat64()); random.IntN(9) == 0 {
			x.Data[i] = float32(math.NaN())
		}
	}
	return x
}

func file(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := m.WriteTo(&b)
	assert.Need(t, err == nil && n == int64(b.Len()), "wrote %d bytes and returned %d, %v", b.Len(), n, err)
	return b.Bytes()
}

// The committed file of a model stays readable.
func TestReadGolden(t *testing.T) {
	written := assert.Must(os.ReadFile("testdata/digits.arrow"))(t)
	m := assert.Must(Read(bytes.NewReader(written)))(t)
	assert.Equal(t, m.Digest(), wire.Digest("772a6ec60e6e861eff9ceaf47ae6a6d278791d9642d2e0dd16c62d6b9ae1d202"), "digest")
	assert.True(t, bytes.Equal(file(t, m), written), "written again, the file has other bytes")
}

// A changed bit is an error, or changes nothing that the digest is over. So is a cut, but for that of the eight bytes that end
// an Arrow stream.
func TestDamagedFile(t *testing.T) {
	m := assert.Must(synthetic(t, "rff", 3, 0, link.Softmax, link.Calibrated).model())(t)
	written := file(t, m)
	for i := 0; i < len(written); i += 7 {
		damaged := bytes.Clone(written)
		damaged[i] ^= 1 << (i % 8)
		again, err := Read(bytes.NewReader(damaged))
		assert.True(t, err != nil || again.Digest() == m.Digest(),
			"bit %d of byte %d is another, and the model is read with another digest", i%8, i)
	}
	for n := range len(written)/8 - 1 {
		_, err := Read(bytes.NewReader(written[:n*8]))
		assert.Need(t, errors.Is(err, wire.ErrDamaged), "the first %d of %d bytes: %v", n*8, len(written), err)
	}
	for content, want := range map[string]string{"": "an empty file", "no model": "text", "\x80\x04\x95\x00": "a pickle of Python", "PAR1\x15\x04": "a Parquet file", "version https://git-lfs.github.com/spec/v1\n": "a pointer of Git LFS instead of the file", "\x01\x02": "other bytes"} {
		_, err := Read(strings.NewReader(content))
		want = "not a model file, but " + want + ":"
		assert.True(t, errors.Is(err, wire.ErrDamaged) && strings.HasPrefix(err.Error(), want), "%q: %v, expected %s", content, err, want)
	}
	full := errors.New("full")
	assert.MustFail(Read(io.MultiReader(bytes.NewReader(written[:8]), failing{full})))(t, full)
	n, err := m.WriteTo(failing{full})
	assert.True(t, n == 0 && errors.Is(err, full), "a writer that fails: %d bytes, %v", n, err)
	m.Manifest.WeightsDigest = "other"
	assert.MustFail(Read(bytes.NewReader(file(t, m))))(t, wire.ErrDamaged, "digest")
}

// failing is a reader and a writer that fail.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// New names what is missing, or has another shape than its plan says.
func TestNewNamesWhatDoesNotFit(t *testing.T) {
	without := func(tensors wire.Tensors[float32], name string) wire.Tensors[float32] {
		return slices.DeleteFunc(slices.Clone(tensors), func(t wire.Tensor[float32]) bool { return t.Name == name })
	}
	for name, test := range map[string]struct {
		change func(*parts)
		shape  bool // the error is a *wire.ShapeError, otherwise schemas.ErrDamaged
		says   []string
	}{
		"no stages":     {func(p *parts) { p.manifest.Plan.Stages = nil }, false, []string{"without stages"}},
		"unknown link":  {func(p *parts) { p.manifest.Plan.Stages[0].Link = "probit" }, false, []string{"link", "probit", "softmax"}},
		"unknown kind":  {func(p *parts) { p.manifest.Plan.Stages[1].Features.Kind = "wavelet" }, false, []string{"kind", "wavelet", "rff"}},
		"unknown scale": {func(p *parts) { p.manifest.Plan.Prepare.Scale = "huge" }, false, []string{"scale", "huge"}},
		"no labels": {func(p *parts) { p.preparation = without(p.preparation, statistics.TensorLabels) }, true,
			[]string{statistics.TensorLabels, "absent"}},
		"no centre": {func(p *parts) { p.preparation = without(p.preparation, statistics.TensorCenter) }, true,
			[]string{statistics.TensorCenter, "absent"}},
		"no spread": {func(p *parts) { p.preparation = without(p.preparation, statistics.TensorSpread) }, true,
			[]string{statistics.TensorSpread, "absent"}},
		"no basis": {func(p *parts) { p.manifest.Plan.Prepare.PCA = 2 }, true, []string{statistics.TensorBasis, "absent"}},
		"wrong scale": {func(p *parts) { p.preparation[1] = wire.Vector(statistics.TensorScale, []float32{1}) }, true,
			[]string{statistics.TensorScale, "[1]", "[3]"}},
		"no weights": {func(p *parts) { p.weights[0] = nil }, true, []string{"stage 0", `"` + statistics.TensorW + `"`, "absent", "[6 3]"}},
		"weights of fewer rows": {func(p *parts) {
			p.weights[0][0].Tensors[0] = wire.Matrix(statistics.TensorW, 5, 3, make([]float32, 15))
		}, true, []string{"stage 0", "[5 3]", "[6 3]"}},
		"no calibration": {func(p *parts) { p.weights[1][1].Tensors = p.weights[1][1].Tensors[:1] }, true, []string{"stage 1",
			statistics.TensorCalibration, "absent", "[9 3]"}},
		"wrong calibration": {func(p *parts) {
			p.weights[1][0].Tensors[1] = wire.Matrix(statistics.TensorCalibration, 3, 3, make([]float32, 9))
		}, true, []string{"stage 1", statistics.TensorCalibration, "[9 3]"}},
		"passes that are not there": {func(p *parts) { p.weights[1][1].Final = &schemas.Final{Passes: 3} }, false, []string{"stage 1",
			"3 passes", "2"}},
		"negative passes": {func(p *parts) { p.weights[1][1].Final = &schemas.Final{Passes: -1} }, false, []string{"stage 1", "-1 passes"}},
	} {
		p := synthetic(t, "rff", 3, 0, link.Softmax, link.Calibrated)
		test.change(p)
		m, err := p.model()
		if err == nil {
			t.Errorf("%s: a model %v", name, m)
			continue
		}
		assert.True(t, test.shape == errors.As(err, new(*wire.ShapeError)) && test.shape != errors.Is(err, wire.ErrDamaged),
			"%s: %T: %v", name, err, err)
		for _, says := range test.says {
			assert.True(t, strings.Contains(err.Error(), says), "%s: %q does not say %q", name, err, says)
		}
	}
	p := synthetic(t, "columns", 3, 0, link.Softmax)
	p.manifest.Plan.Stages[0].Features.Size = 4
	assert.MustFail(p.model())(t, new(*stages.SizeError))
}

// Passes of a learnt link that do not count are no part of the model.
func TestPassesThatCount(t *testing.T) {
	p := synthetic(t, "rff", 3, 0, link.Calibrated)
	all := assert.Must(p.model())(t)
	p.weights[0][1].Final = &schemas.Final{Passes: 1}
	counted := assert.Must(p.model())(t)
	p.weights[0] = p.weights[0][:1]
	first := assert.Must(p.model())(t)
	assert.True(t, counted.Digest() == first.Digest() && counted.Digest() != all.Digest(),
		"digests: of both passes %s, of the first that counts %s, of the first alone %s", all.Digest(), counted.Digest(), first.Digest())
}

// Probabilities are probabilities, whichever link is last. Those of a row do not depend on the rows after its tile, and those
// of one row are what Predict returns, to the bit if the row has a tile of its own.
func TestProbabilitiesOfTiles(t *testing.T) {
	blas := assert.Must(kernel.Open(""))(t)
	const d = 4
	for _, links := range everyLink {
		m := assert.Must(synthetic(t, "rff", d, 0, links...).model())(t)
		rows := func(n int) kernel.Dense {
			return raw(129, d).Slice(0, n)
		}
		all := slices.Clone(m.Predictor(blas).Probabilities(rowsOf(rows(129))))
		k := len(m.Labels())
		for i := 0; i < len(all); i += k {
			sum := float64(0)
			for _, v := range all[i : i+k] {
				sum += float64(v)
				assert.Need(t, v >= 0 && v <= 1 && v == v, "%v: row %d has probabilities %v", links, i/k, all[i:i+k])
			}
			assert.Need(t, math.Abs(sum-1) <= 1e-5, "%v: row %d has probabilities %v", links, i/k, all[i:i+k])
		}
		p := m.Predictor(blas)
		for _, n := range []int{64, 65, 63, 1, 128, 0} {
			got := p.Probabilities(rowsOf(rows(n)))
			assert.Need(t, len(got) == n*k, "%v: %d probabilities of %d rows", links, len(got), n)
			whole := n / tileRows * tileRows * k
			assert.True(t, slices.Equal(got[:whole], all[:whole]), "%v: tiles of %d rows are not those of 129", links, n)
			for i, v := range got {
				assert.Need(t, math.Abs(float64(v-all[i])) <= 1e-5, "%v: row %d of %d has %v, of 129 it has %v", links, i/k, n, v, all[i])
			}
		}
		for _, i := range []int{0, 63, 64, 128} {
			label, probabilities := p.Predict(rows(129).Row(i))
			want := all[i*k : (i+1)*k]
			for c, v := range probabilities {
				assert.True(t, math.Abs(float64(v-want[c])) <= 1e-5, "%v: row %d alone has %v, in a batch %v", links, i, probabilities, want)
			}
			// the last of 129 rows is a tile of one row
			assert.True(t, i != 128 || slices.Equal(probabilities, want),
				"%v: row %d alone has %v, alone in its tile %v", links, i, probabilities, want)
			best := slices.Index(probabilities, slices.Max(probabilities))
			assert.True(t, label == m.Labels()[best], "%v: row %d is %q, its probabilities are %v", links, i, label, probabilities)
		}
	}
}

// A missing feature counts as the mean of the feature, and Predict leaves its argument alone.
func TestMissingFeatureIsTheMean(t *testing.T) {
	p := synthetic(t, "rff", 3, 0, link.Softmax)
	m := assert.Must(p.model())(t)
	center, _ := p.preparation.Find(statistics.TensorCenter)
	predictor := m.Predictor(nil)
	row := []float32{1, float32(math.NaN()), 2}
	_, probabilities := predictor.Predict(row)
	missing := slices.Clone(probabilities)
	assert.True(t, row[0] == 1 && row[1] != row[1] && row[2] == 2, "Predict changed the row to %v", row)
	_, mean := predictor.Predict([]float32{1, center.Data[1], 2})
	assert.True(t, slices.Equal(missing, mean), "a missing feature gives %v, the mean %v", missing, mean)
}

// addChanged adds a file to the corpus, and files with a changed bit.
func addChanged(f *testing.F, written []byte) {
	f.Helper()
	f.Add(written)
	for i := range 20 {
		changed := bytes.Clone(written)
		changed[len(changed)*i/20] ^= 1 << (i % 8)
		f.Add(changed)
	}
}

// Any bytes are a model that predicts, or an error. The digest is not checked, as no change would pass.
func FuzzRead(f *testing.F) {
	for _, links := range everyLink {
		m := assert.Must(synthetic(f, "columns", 2, 0, links...).model())(f)
		addChanged(f, file(f, m))
	}
	for _, l := range []schemas.Link{link.Softmax, link.Calibrated} {
		table := oracle.NewTable(rand.New(rand.NewPCG(1, 1)), 1, 3)
		m, err := syntheticStages(f, &schemas.Plan{Intercept: true, Prepare: schemas.Prepare{Scale: stages.ScaleNone}}, 4, 1, table,
			[]schemas.Stage{{Features: treesOf(4, 3), Link: l}}).model()
		assert.NoError(f, err)
		addChanged(f, file(f, m))
	}
	f.Fuzz(func(t *testing.T, written []byte) {
		m, err := read(bytes.NewReader(written))
		if err != nil {
			assert.True(t, errors.Is(err, wire.ErrDamaged) || errors.As(err, new(*wire.ShapeError)) || errors.As(err, new(*stages.SizeError)),
				"%T: %v", err, err)
			return
		}
		m.Digest()
		got := m.Predictor(kernel.Gonum()).Probabilities(rowsOf(raw(3, m.Width())))
		assert.True(t, len(got) == 3*len(m.Labels()), "%d probabilities of 3 rows and %d labels", len(got), len(m.Labels()))
	})
}

// member returns the parts of a model of one member of p. The features of its stages must not be drawn, as draws depend
// on a stage's number.
func (p *parts) member(number int) *parts {
	manifest, plan := *p.manifest, *p.manifest.Plan
	n := plan.MemberStages()
	first, end := number*n, (number+1)*n
	plan.Stages, plan.Average, manifest.Plan = plan.Stages[first:end], 0, &plan
	manifest.Blocks = slices.Clone(manifest.Blocks[first:end])
	for t := range manifest.Blocks {
		manifest.Blocks[t].Stage = t
	}
	return &parts{&manifest, p.preparation, p.weights[first:end]}
}

// A model of several members predicts the mean of what each of them predicts by itself, to the bit, whatever the link.
func TestAverageOfMembers(t *testing.T) {
	const d, n = 4, 65
	for _, links := range everyLink {
		for _, members := range []int{2, 3} {
			p := syntheticMembers(t, "columns", d, 0, members, links...)
			m := assert.Must(p.model())(t)
			want := kernel.NewDense(n, 3)
			for i := range members {
				one := assert.Must(p.member(i).model())(t)
				for j, v := range one.Predictor(nil).Probabilities(rowsOf(raw(n, d))) {
					want.Data[j] += v
				}
			}
			for j := range want.Data {
				want.Data[j] /= float32(members)
			}
			predictor := m.Predictor(nil)
			for range 2 { // memory of the first call is used again
				got := predictor.Probabilities(rowsOf(raw(n, d)))
				assert.True(t, slices.Equal(got, want.Data), "%d members of %v: other probabilities than their mean", members, links)
			}
			losses, predicted := make([]float32, n), make([]int32, n)
			measured := predictor.Measure(rowsOf(raw(n, d)), link.Truth{Classes: make([]int32, n)}, losses, predicted)
			assert.True(t, slices.Equal(measured.Data, want.Data) && slices.Min(losses) >= 0 && slices.Max(losses) != 0,
				"%d members of %v: measured other predictions, or losses %v", members, links, losses)
			got := assert.Must(Read(bytes.NewReader(file(t, m))))(t).Predictor(nil).Probabilities(rowsOf(raw(n, d)))
			assert.True(t, slices.Equal(got, want.Data), "%d members of %v: the file predicts otherwise", members, links)
		}
	}
}

// A plan of a version has no temperature that scores can't be divided by.
func TestPlanHasPossibleTemperatures(t *testing.T) {
	for _, test := range []struct {
		link        schemas.Link
		temperature float64
		possible    bool
	}{
		{link.Softmax, 0, true}, {link.Softmax, 1.7, true}, {link.Logistic, 0.5, true}, {link.Identity, 1, true}, {link.Calibrated, 0, true},
		{link.Softmax, -1, false}, {link.Softmax, math.NaN(), false}, {link.Softmax, math.Inf(1), false}, {link.Identity, 1.7, false},
		{link.Calibrated, 2, false},
	} {
		plan := &schemas.Plan{Stages: []schemas.Stage{{Features: stages.Defaults(), Link: test.link, Temperature: test.temperature}}}
		plan.Prepare.Scale = "none"
		err := CheckPlan(plan)
		assert.True(t, (err == nil) == test.possible, "link %s, temperature %g: %v", test.link, test.temperature, err)
	}
}

// Many goroutines that predict with one model get what one predictor gives, and leave their rows as they were.
func TestPredictFromManyGoroutines(t *testing.T) {
	for _, links := range everyLink {
		m := assert.Must(synthetic(t, "rff", 4, 2, links...).model())(t)
		rows, k := raw(100, 4), len(m.Labels())
		want := make([]float32, 0, rows.Rows*k)
		var labels []string
		p := m.Predictor(nil)
		for i := range rows.Rows {
			label, probabilities := p.Predict(rows.Row(i))
			labels, want = append(labels, label), append(want, probabilities...)
		}
		before := slices.Clone(rows.Data)
		var goroutines errgroup.Group
		for range 8 {
			goroutines.Go(func() error {
				probabilities := make([]float32, k)
				for i := range rows.Rows {
					label := m.Predict(rows.Row(i), probabilities)
					if label != labels[i] || !slices.Equal(probabilities, want[i*k:(i+1)*k]) || m.Predict(rows.Row(i), nil) != label {
						return fmt.Errorf("%v: row %d: %s with %v, a predictor says %s with %v", links, i, label, probabilities, labels[i], want[i*k:(i+1)*k])
					}
				}
				return nil
			})
		}
		assert.Fails(t, goroutines.Wait(), nil)
		same := func(x, y float32) bool { return x == y || x != x && y != y }
		assert.True(t, slices.EqualFunc(rows.Data, before, same), "%v: the rows have changed", links)
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	for _, links := range everyLink {
		m := assert.Must(synthetic(t, "rff", 4, 2, links...).model())(t)
		row, probabilities := raw(1, 4).Data, make([]float32, 3)
		m.Predict(row, probabilities)
		n := testing.AllocsPerRun(100, func() { m.Predict(row, probabilities) })
		assert.True(t, n <= 0, "%v: %v allocations a prediction, expected none", links, n)
	}
}

// sparsePreparation returns a preparation that keeps some columns of sparse rows.
func sparsePreparation(t *testing.T, columns []int32) *stages.Preparation {
	factors, labels := statistics.Factors{Width: 1 << 12}, wire.Tensor[float32]{Name: statistics.TensorLabels, Shape: []int{2}, Text: []string{"a", "b"}}
	factors.Columns = columns
	for range columns {
		factors.Values = append(factors.Values, 1)
	}
	return assert.Must(stages.NewPreparation(schemas.Prepare{}, append(factors.Tensors(false), labels)))(t)
}

// The weights of a model on more columns are those of its columns, and 0 elsewhere.
func TestWeightsOnMoreColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var few, all []int32
		for column := range int32(300) {
			if n := r.IntN(3); n > 0 || column == 0 {
				all = append(all, column)
				if n > 1 || column == 0 {
					few = append(few, column)
				}
			}
		}
		before, after := sparsePreparation(t, few), sparsePreparation(t, all)
		w := kernel.NewDense(len(few)+1, 2) // the intercept is last
		for i := range w.Data {
			w.Data[i] = r.Float32()
		}
		m := &Model{prepared: before, stages: []fittedStage{{fitted: &sink.Fitted{W: kernel.Weights{Dense: w}}}}}
		got := m.WeightsOn(0, after)
		want := make([]float32, 2*(len(all)+1))
		for i, column := range few {
			copy(want[2*slices.Index(all, column):], w.Row(i))
		}
		copy(want[2*len(all):], w.Row(len(few)))
		assert.Need(t, slices.Equal(got, want), "got %v, want %v", got, want)
	}
}

// A record of an update on sparse rows does not change the memory of the weights that a stage begins at.
func TestFittedLeavesInitialWeights(t *testing.T) {
	prepared := sparsePreparation(t, []int32{1, 4, 9, 16})
	plan := &schemas.Plan{Seed: 1, Stages: []schemas.Stage{{Features: schemas.Features{Kind: stages.Columns}, Link: "softmax"}}}
	s := assert.Must(NewStage(plan, 0, prepared))(t)
	initial := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	published := []*schemas.Weights{{Tensors: wire.Tensors[float32]{statistics.InputsTensor(statistics.TensorOccurring, []int32{0, 2}),
		wire.Matrix(statistics.TensorRows, 2, 2, []float32{10, 20, 30, 40}), wire.Vector(statistics.TensorShift, []float32{0.5, -0.5})}}}
	for range 2 {
		f := assert.Must(s.Fitted(initial, published))(t)
		want := []float32{10, 20, 3.5, 3.5, 30, 40, 7.5, 7.5}
		assert.Need(t, slices.Equal(f.W.Data, want), "got %v, want %v", f.W.Data, want)
		assert.Need(t, initial[0] == 1 && initial[7] == 8, "the initial weights are %v", initial)
	}
}

// checkContributions checks that base and contributions are the scores of rows, which the link turns into the probabilities of the model,
// and that fewer contributions are the largest of all. It returns the contributions of each row.
func checkContributions(t *testing.T, what string, m *Model, raw kernel.Dense) (all [][]Contributions) {
	t.Helper()
	p, rows := m.Predictor(kernel.Gonum()), &examples.Rows{Rows: raw.Rows, Cols: raw.Cols, Floats: raw.Data}
	probabilities := kernel.NewDense(raw.Rows, len(m.Labels()))
	m.Probabilities(probabilities.Data, rows)
	assert.NoError(t, p.Contributions(rows, math.MaxInt, func(row int, scores []Contributions) {
		predicted := kernel.NewDense(1, len(scores))
		var copies []Contributions
		for out, s := range scores {
			sum := s.Base
			for i, c := range s.Columns {
				sum += c.Value
				assert.True(t, i == 0 || math.Abs(c.Value) <= math.Abs(s.Columns[i-1].Value),
					"%s: the contributions %v are not sorted", what, s.Columns)
			}
			assert.True(t, math.Abs(sum-s.Score) <= 1e-5*(1+math.Abs(s.Score)),
				"%s, row %d: base and contributions are %g, the score of %s is %g", what, row, sum, s.Label, s.Score)
			predicted.Data[out] = float32(s.Score)
			s.Columns = slices.Clone(s.Columns)
			copies = append(copies, s)
		}
		last := m.stages[len(m.stages)-1].Link
		last.Predict(predicted)
		last.Probabilities(predicted, new(link.Scratch))
		for out, v := range predicted.Data {
			want := probabilities.Row(row)[out]
			assert.True(t, math.Abs(float64(v-want)) <= 1e-5, "%s, row %d: the scores are of the probability %g, want %g", what, row, v, want)
		}
		all = append(all, copies)
	}))
	assert.NoError(t, p.Contributions(rows, 1, func(row int, scores []Contributions) {
		for out, s := range scores {
			assert.Equal(t, s.Columns, all[row][out].Columns[:1], "%s, row %d: the largest contribution", what, row)
		}
	}))
	return all
}

// Contributions of trees, and of trees after other features, add up to the scores, or an error says why there are none.
func TestContributionsOfTrees(t *testing.T) {
	explained := 0
	everyGrown(t, func(what string, _ *parts, m *Model) {
		if err := m.CheckContributions(); err != nil {
			assert.True(t, strings.Contains(err.Error(), "contributions need"), "%s: %v", what, err)
			return
		}
		explained++
		checkContributions(t, what, m, tableRows(2*contributedRows+1).Slice(contributedRows-5, contributedRows+3))
	})
	assert.True(t, explained != 0, "no model has contributions")
}

// Trees of versions without covers have no contributions.
func TestNoContributionsWithoutCovers(t *testing.T) {
	table := mixed()
	p := syntheticStages(t, &schemas.Plan{Prepare: schemas.Prepare{Scale: stages.ScaleNone}}, table.Width(), 1, table, []schemas.Stage{{Features: treesOf(5, 7), Link: schemas.Link(link.Softmax)}})
	structure := &p.weights[0][0].Tensors
	*structure = (*structure)[:len(*structure)-1]
	m := assert.Must(p.model())(t)
	assert.Fails(t, m.CheckContributions(), "covers")
	assert.Equal(t, m.Digest(), p.manifest.WeightsDigest, "the digest of the weights depends on covers")
}

// Contributions of other features add up to the scores of several stages, with and without components; those of the columns themselves
// are weights times distances from the mean.
func TestContributionsOfSlopes(t *testing.T) {
	for _, kind := range []string{stages.RFF, stages.SORF, stages.Logits, stages.Polynomial, stages.Columns} {
		for _, components := range []int{0, 3} {
			f := stages.DefaultsOf(kind)
			if f.Size = 40; kind == stages.Columns {
				f.Size = 0
			}
			list := slices.Repeat([]schemas.Stage{{Features: f, Link: schemas.Link(link.Softmax)}}, 2)
			list[1].Temperature = 2
			plan := &schemas.Plan{Prepare: schemas.Prepare{Scale: stages.ScaleStandard, PCA: components}, Intercept: true}
			m := assert.Must(syntheticStages(t, plan, 5, 1, oracle.Table{}, list).model())(t)
			raw := kernel.NewDense(4, 5)
			for i := range raw.Data {
				raw.Data[i] = float32(i%7)/7 - 0.4
			}
			raw.Data[2] = float32(math.NaN())
			all := checkContributions(t, fmt.Sprintf("%s of %d components", kind, components), m, raw)
			if kind != stages.Columns || components > 0 {
				continue
			}
			for i, row := range all {
				for _, c := range row[1].Columns {
					j := int(c.Column[0] - '0')
					want := 0.0
					if x := raw.Row(i)[j]; x == x {
						w := float64(m.Weights(0)[j*3+1]) + float64(m.Weights(1)[j*3+1])
						want = w * float64(x-m.prepared.Center[j]) * float64(m.prepared.Scale[j]) / 2
					}
					assert.True(t, math.Abs(c.Value-want) <= 1e-5, "row %d, column %d: %g, want %g", i, j, c.Value, want)
				}
			}
		}
	}
}

// Contributions of sparse rows, of two stages with an intercept, add up to the scores, and name the features by their numbers.
func TestContributionsOfSparseRows(t *testing.T) {
	factors := statistics.Factors{Width: 9, Columns: []int32{1, 4, 7}, Values: []float32{1, 2, 0.5}}
	labels := []string{"a", "b"}
	f := stages.DefaultsOf(stages.Columns)
	plan := &schemas.Plan{Name: "sparse", Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Intercept: true,
		Stages: slices.Repeat([]schemas.Stage{{Features: f, Link: link.Softmax}}, 2)}
	p := &parts{manifest: &schemas.Manifest{Name: plan.Name, Version: 1, Run: "run", Plan: plan, Labels: labels},
		preparation: append(factors.Tensors(false), wire.Words[float32](statistics.TensorLabels, labels))}
	for i, data := range [][]float32{{1, -1, 2, 0.5, -3, 0.25, 0.75, -0.5}, {0.5, 1, -1, 2, 0.25, 0.5}} {
		p.weights = append(p.weights, []*schemas.Weights{{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Stage: i},
			Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, len(data)/2, 2, data)}}})
		p.manifest.Blocks = append(p.manifest.Blocks, schemas.BlockDigest{Stage: i, Passes: 1})
	}
	m := assert.Must(p.model())(t)
	raw := kernel.NewDense(3, m.Width())
	raw.Row(0)[4], raw.Row(0)[2], raw.Row(1)[1], raw.Row(1)[7] = 3, 5, 1, -2 // column 2 has no factor
	all := checkContributions(t, "sparse rows", m, raw.Slice(0, 2))
	assert.Equal(t, all[0][1].Columns, []Contribution{{"4", 3 * 2 * (0.5 + 2)}}, "contributions")
}
