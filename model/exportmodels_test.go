package model

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// width is how many raw features the models of the tests have: more than the inputs of a transform of the kind sorf.
const width = 70

var labels = []string{"a", "β", `"c"`}

// recipe is what a model of the tests is made of. The weights are random.
type recipe struct {
	prepare   schemas.Prepare
	intercept bool
	labels    []string
	stages    []schemas.Stage // of a member
	members   int             // that are averaged; 0: none
	task      examples.Task
}

func (r recipe) String() string {
	text := fmt.Sprintf("%d classes, %s scale, pca %d, intercept %v", len(r.labels), r.prepare.Scale, r.prepare.PCA, r.intercept)
	text += [...]string{examples.OneLabel: "", examples.SeveralLabels: ", several labels", examples.Numbers: ", numbers"}[r.task]
	if r.members > 0 {
		text += fmt.Sprintf(", %d members", r.members)
	}
	for _, s := range r.stages {
		text += fmt.Sprintf("; %s, %s, scores %v", stages.Describe(s.Features), s.Link, s.Scores)
	}
	return text
}

// model returns the model of a recipe. Its numbers are of the size that training gives them.
func (r recipe) model(t testing.TB) *Model {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	draw := normals(random)
	scale := make([]float32, width)
	for j := range scale {
		scale[j] = 0.5 + random.Float32()
	}
	scale[3] = 0 // a feature that never changes
	preparation := wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, draw(width, 0.3)), wire.Vector(statistics.TensorScale, scale),
		wire.Vector(statistics.TensorSpread, []float32{2 * width}), wire.Words[float32](statistics.TensorLabels, r.labels),
	}
	if n := r.prepare.PCA; n > 0 {
		preparation = append(preparation, wire.Matrix(statistics.TensorBasis, width, n, draw(width*n, 1/math.Sqrt(width))))
	}
	preparation = append(preparation, wire.Vector(statistics.TensorImage, []float32{7, 5, 2}))
	all := slices.Repeat(r.stages, max(r.members, 1))
	for t, s := range all {
		if f := s.Features; f.Kind == stages.Patches || f.Kind == stages.PatchPolynomial {
			q, p := 2*f.Patch*f.Patch, 2*f.Filters*f.Grid*f.Grid
			preparation = append(preparation,
				wire.Matrix(statistics.OfStage(statistics.TensorWhitening, t), q, q, draw(q*q, 1)),
				wire.Vector(statistics.OfStage(statistics.TensorOffset, t), draw(q, 0.1)),
				wire.Matrix(statistics.OfStage(statistics.TensorFilters, t), q, f.Filters, draw(q*f.Filters, 1/math.Sqrt(float64(q)))),
				wire.Vector(statistics.OfStage(statistics.TensorContrast, t), []float32{0.1}),
				wire.Vector(statistics.OfStage(statistics.TensorMean, t), draw(p, 1)), wire.Vector(statistics.OfStage(statistics.TensorFactor,
					t), draw(p, 0.3)))
		}
	}
	table := tableOf()
	_, grown := r.grown()
	if grown {
		preparation = append(preparation, binsOf(table)...)
	}
	if r.task == examples.Numbers {
		k := len(r.labels)
		center, rest, scale := draw(k, 1), draw(k, 1), draw(k, 1)
		for c := range center {
			center[c] += 1.7e9 // as times have: predictions in float32 would have steps of 128
		}
		preparation = append(preparation, wire.Vector(statistics.TensorTargetCenter, center), wire.Vector(statistics.TensorTargetRest, rest),
			wire.Vector(statistics.TensorTargetScale, scale))
	}
	plan := &schemas.Plan{Name: "flowers", Segment: 16, Prepare: r.prepare, Intercept: r.intercept, Seed: 1<<63 + 5, Stages: all,
		Average: r.members}
	manifest := &schemas.Manifest{Name: plan.Name, Version: 7, Run: "run", Plan: plan, Labels: r.labels, LabelType: examples.TypeOf(r.labels)}
	switch r.task {
	case examples.Numbers:
		plan.Targets = r.labels
	case examples.SeveralLabels:
		plan.Labels, manifest.Thresholds = schemas.LabelsSeveral, &statistics.Thresholds{MicroF1: 0.3}
	}
	if len(r.labels) == 2 {
		manifest.Threshold = 0.3 // which no float32 is
	}
	for i := range width {
		manifest.Columns = append(manifest.Columns, examples.Column{Name: fmt.Sprint("x", i)})
	}
	if grown {
		manifest.Columns = columnsOf(table)
	}
	return (&parts{manifest: manifest, preparation: preparation}).fit(t, random, table)
}

// normals returns what draws n normal numbers of a deviation.
func normals(random *rand.Rand) func(n int, deviation float64) []float32 {
	return func(n int, deviation float64) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(deviation * random.NormFloat64())
		}
		return values
	}
}

// grown reports whether all stages of a recipe have trees, or any.
func (r recipe) grown() (all, any bool) {
	has := func(s schemas.Stage) bool { return stages.KindOf(s.Features).Grown }
	return !slices.ContainsFunc(r.stages, func(s schemas.Stage) bool { return !has(s) }), slices.ContainsFunc(r.stages, has)
}

// tableOf returns the columns of models with trees: numbers and words.
func tableOf() oracle.Table {
	features := slices.Concat(slices.Repeat([]int{1}, 30), []int{3, 10, 2}, slices.Repeat([]int{1}, width-45))
	return oracle.NewTable(rand.New(rand.NewPCG(5, 6)), features...)
}

// columnsOf returns columns of that many features.
func columnsOf(t oracle.Table) (columns examples.Columns) {
	for j, n := range t.Features {
		c := examples.Column{Name: fmt.Sprint("x", j)}
		for i := range n - 1 {
			c.Categories = append(c.Categories, fmt.Sprint("w", i))
		}
		columns = append(columns, c)
	}
	return columns
}

// everyRecipe returns all kinds of features, with every link, with and without previous predictions, and all
// preparations. The stage before has each link in turn. Models of one class and of many follow, and trees before and after other stages.
func everyRecipe(t testing.TB) (all []recipe) {
	t.Helper()
	links, turn := link.Names(), 0
	for _, scale := range []string{stages.ScaleNone, stages.ScaleStandard, stages.ScaleUnit} {
		for _, components := range []int{0, 4} {
			for _, features := range everyFeatures(t) {
				prepare := schemas.Prepare{Scale: scale, PCA: components}
				if stages.CheckStage(schemas.Stage{Features: features}, prepare, examples.OneLabel) != nil {
					continue
				}
				if components > 0 && features.Kind == stages.Columns && !features.Replacement {
					features.Size = min(features.Size, components)
				}
				for _, last := range links {
					for _, scores := range []bool{false, true} {
						if stages.CheckStage(schemas.Stage{Features: features, Scores: scores}, prepare, examples.OneLabel) != nil {
							continue
						}
						first := schemas.Stage{Features: features, Link: schemas.Link(links[turn%len(links)]), Scores: scores && turn%4 > 1}
						turn++
						all = append(all, recipe{
							prepare: schemas.Prepare{Scale: scale, PCA: components}, intercept: turn%3 > 0, labels: labels,
							stages: []schemas.Stage{first, {Features: features, Link: schemas.Link(last), Scores: scores}},
						})
					}
				}
			}
		}
	}
	for i, features := range everyFeatures(t) {
		for _, last := range links {
			first := schemas.Stage{Features: features, Link: schemas.Link(links[i%len(links)])}
			all = append(all, recipe{
				prepare: schemas.Prepare{Scale: stages.ScaleStandard}, intercept: true, labels: labels, members: 2 + i%2,
				stages: []schemas.Stage{first, {Features: features, Link: schemas.Link(last), Scores: !stages.KindOf(features).Grown}},
			})
		}
	}
	many := make([]string, 300)
	for c := range many {
		many[c] = fmt.Sprint(c)
	}
	for _, labels := range [][]string{{"only"}, {"no", "yes"}, many} {
		for _, l := range links {
			stage := schemas.Stage{Features: everyFeatures(t)[0], Link: schemas.Link(l)}
			all = append(all, recipe{prepare: schemas.Prepare{Scale: stages.ScaleStandard}, intercept: true, labels: labels,
				stages: []schemas.Stage{stage, stage}})
		}
	}
	for _, basis := range [][]int{{1}, {1, 3}} {
		stage := schemas.Stage{Features: everyFeatures(t)[0], Link: link.Calibrated, Basis: basis}
		all = append(all, recipe{prepare: schemas.Prepare{Scale: stages.ScaleStandard}, intercept: true, labels: labels,
			stages: []schemas.Stage{stage, stage}})
	}
	for _, task := range []examples.Task{examples.SeveralLabels, examples.Numbers} {
		for i, l := range LinksOf(task) {
			stage := schemas.Stage{Features: everyFeatures(t)[0], Link: schemas.Link(l)}
			all = append(all, recipe{prepare: schemas.Prepare{Scale: stages.ScaleStandard}, intercept: true, labels: labels,
				stages: []schemas.Stage{stage, stage}, members: 2 * (i % 2), task: task})
		}
	}
	forest, drawn := grownFeatures(), everyFeatures(t)[0]
	for _, members := range []int{0, 2} {
		for _, l := range []schemas.Link{link.Softmax, link.Logistic} {
			all = append(all, recipe{prepare: schemas.Prepare{Scale: stages.ScaleStandard}, intercept: true, labels: labels, members: members,
				stages: []schemas.Stage{{Features: drawn, Link: l, Temperature: 0.6}, {Features: forest, Link: l, Temperature: 1.7}}})
		}
	}
	for i, l := range links {
		for _, labels := range [][]string{{"only"}, labels, many} {
			all = append(all, recipe{prepare: schemas.Prepare{Scale: stages.ScaleStandard}, intercept: true, labels: labels,
				stages: []schemas.Stage{{Features: forest, Link: schemas.Link(l)}, {Features: drawn, Link: schemas.Link(links[(i+1)%len(links)]),
					Scores: true}, {Features: forest, Link: schemas.Link(links[(i+2)%len(links)])}}})
		}
	}
	return all
}

// grownFeatures returns leaves of trees: 9 trees with as many leaves as there can be.
func grownFeatures() schemas.Features {
	f := stages.DefaultsOf(stages.Trees)
	f.Size, f.Leaves = 9*64, 64
	return f
}

// everyFeatures returns features of every kind that there is.
func everyFeatures(t testing.TB) (all []schemas.Features) {
	t.Helper()
	unknown := stages.Defaults()
	unknown.Kind = "unknown"
	problems := stages.Check(unknown)
	assert.Need(t, len(problems) == 1, "an unknown kind of features: %v", problems)
	for _, kind := range strings.Split(strings.ReplaceAll(problems[0].Want, " or ", ", "), ", ") {
		f := stages.DefaultsOf(kind)
		if stages.KindOf(f).OnlySparse { // models of sparse rows are not exported
			continue
		}
		f.Size, f.BandwidthScale, f.Degree = 65, 2, 4
		all = append(all, f)
		if kind == stages.Patches {
			f.Size, f.Patch, f.Filters, f.Grid, f.Overlap, f.Root, f.Mirror = 0, 3, 4, 2, 1, true, true
			all[len(all)-1] = f
		}
		if kind == stages.PatchPolynomial {
			f.Patch, f.Filters, f.Grid = 3, 4, 2
			all[len(all)-1] = f
		}
		if kind == stages.Trees {
			f.Size, f.Leaves = 65, 13
			all[len(all)-1] = f
		}
		if kind == stages.Columns {
			f.Size = 0
			all = append(all, f)
			f.Size, f.Replacement = 2*width, true
			all = append(all, f)
		}
	}
	assert.Need(t, len(all) >= 7, "%d kinds of features: %v", len(all), all)
	return all
}

// rows returns n rows of raw features for the model of a recipe. Some values are missing, one row has zeros only, and another has nothing.
// If rows are divided by their length, two are so long and so short that their squares are no float32. Numbers that trees compare are often
// edges, or the numbers next to them; if there is nothing but trees, a row has the largest numbers.
func (r recipe) rows(n int) kernel.Dense {
	random, x := rand.New(rand.NewPCG(3, 4)), kernel.NewDense(n, width)
	for i := range n {
		row, size := x.Row(i), 1.0
		if r.prepare.Scale == stages.ScaleUnit {
			switch i {
			case 3:
				size = 1e30
			case 4:
				size = 1e-30
			}
		}
		for j := range row {
			switch row[j] = float32(size * random.NormFloat64()); {
			case i == 1:
				row[j] = 0
			case i == 2 || i > 5 && random.IntN(9) == 0:
				row[j] = float32(math.NaN())
			}
		}
		r.toEdges(random, i, row)
	}
	return x
}

// toEdges moves numbers of row i to edges of what trees compare.
func (r recipe) toEdges(random *rand.Rand, i int, row []float32) {
	all, grown := r.grown()
	if !grown || i < 5 {
		return
	}
	table, at := tableOf(), 0
	for j, n := range table.Features {
		if edges := table.Edges[j]; n == 1 && len(edges) > 0 {
			edge := edges[random.IntN(len(edges))]
			switch random.IntN(6) {
			case 0:
				row[at] = edge
			case 1:
				row[at] = math.Nextafter32(edge, 9)
			case 2:
				row[at] = math.Nextafter32(edge, -9)
			}
		}
		if all && i == 5 {
			row[at] = float32(1-j%2*2) * math.MaxFloat32
		}
		at += n
	}
}

// A model that is written and read is the same: its file, its digest, its predictions, and the weights at which a warm start begins.
func TestFileRoundTrip(t *testing.T) {
	for _, r := range everyRecipe(t) {
		m := r.model(t)
		written := write(t, "arrow", m)
		again, err := Read(strings.NewReader(written))
		assert.Need(t, err == nil, "%v: %v", r, err)
		assert.True(t, again.Digest() == m.Digest() && write(t, "arrow", again) == written,
			"%v: read again, the model has digest %s, written %s", r, again.Digest(), m.Digest())
		assert.True(t, slices.Equal(again.Labels(), m.Labels()) && again.Width() == m.Width(),
			"%v: %q of %d features, written %q of %d", r, again.Labels(), again.Width(), m.Labels(), m.Width())
		rows := rowsOf(r.rows(10))
		got, want := again.Predictor(kernel.Gonum()).Probabilities(rows), m.Predictor(kernel.Gonum()).Probabilities(rows)
		assert.True(t, slices.Equal(got, want), "%v: read again, the model predicts otherwise", r)
		for s := range m.stages {
			assert.True(t, (m.Weights(s) == nil) == m.stages[s].Link.Learnt && slices.Equal(m.Weights(s), again.Weights(s)),
				"%v: stage %d begins a warm start at %v, read again at %v", r, s, m.Weights(s), again.Weights(s))
		}
	}
}

// write returns the file of a model in the format of that name.
func write(t testing.TB, format string, m *Model) string {
	t.Helper()
	f := ExportTo("", format)
	assert.Need(t, f.Name == format, "there is no format %s", format)
	var b strings.Builder
	assert.NoError(t, f.Write(&b, m))
	return b.String()
}

// The header's length, the header and the values are where the format says, and nothing else is in the file.
func TestSafetensorsLayout(t *testing.T) {
	for _, r := range everyRecipe(t) {
		m := r.model(t)
		file := write(t, "safetensors", m)
		length := binary.LittleEndian.Uint64([]byte(file[:8]))
		header, values := file[8:8+length], file[8+length:]
		assert.Need(t, length%8 == 0 && header[0] == '{', "%v: a header of %d bytes that begins with %q", r, length, header[0])
		var parts map[string]json.RawMessage
		assert.NoError(t, json.Unmarshal([]byte(header), &parts))
		end := 0
		for _, want := range m.Tensors() {
			part, ok := parts[want.Name]
			if want.Text != nil {
				assert.True(t, !ok, "%v: the texts %s are a tensor", r, want.Name)
				continue
			}
			delete(parts, want.Name)
			var got safetensor
			err := json.Unmarshal(part, &got)
			assert.Need(t, err == nil, "%v: %s: %v", r, want.Name, err)
			assert.Need(t, got.Type == "F32" && reflect.DeepEqual(got.Shape, want.Shape) && got.Offsets == [2]int{end, end + 4*len(want.Data)},
				"%v: %s is %+v, expected %v from byte %d", r, want.Name, got, want.Shape, end)
			for i, v := range want.Data {
				bits := binary.LittleEndian.Uint32([]byte(values[end+4*i:]))
				assert.Need(t, math.Float32frombits(bits) == v, "%v: value %d of %s is %v, expected %v", r, i, want.Name, math.Float32frombits(bits), v)
			}
			end += 4 * len(want.Data)
		}
		assert.True(t, end == len(values), "%v: %d bytes of values, expected %d", r, len(values), end)
		var about struct{ Manifest, Labels, Columns string }
		err := json.Unmarshal(parts["__metadata__"], &about)
		assert.Need(t, err == nil && len(parts) == 1, "%v: %d parts that are no tensors, %v", r, len(parts), err)
		var manifest schemas.Manifest
		err = json.Unmarshal([]byte(about.Manifest), &manifest)
		assert.True(t, err == nil && reflect.DeepEqual(&manifest, m.Manifest), "%v: manifest %+v, %v", r, manifest, err)
		var named examples.ClassLabels
		err = json.Unmarshal([]byte(about.Labels), &named)
		assert.True(t, err == nil && slices.Equal(named, r.labels) && (about.Labels[1] == '"') != (m.LabelType() == examples.WholeLabels),
			"%v: labels %q, %v", r, named, err)
		var columns examples.Columns
		err = json.Unmarshal([]byte(about.Columns), &columns)
		assert.True(t, err == nil && reflect.DeepEqual(columns, m.Columns()), "%v: columns %v, %v", r, columns, err)
	}
}

// An error of the writer is returned, from every format and wherever it comes.
func TestWriterFails(t *testing.T) {
	full := errors.New("full")
	m := everyRecipe(t)[0].model(t)
	for _, format := range Exports() {
		whole := len(write(t, format.Name, m))
		for _, room := range []int{0, 5, 8, whole / 2, whole - 1} {
			err := format.Write(&disk{room, full}, m)
			assert.True(t, errors.Is(err, full), "%s with room for %d bytes: %v", format.Name, room, err)
		}
	}
}

// disk is a writer that fails when it has no room.
type disk struct {
	room int
	err  error
}

func (d *disk) Write(b []byte) (int, error) {
	if len(b) > d.room {
		return 0, d.err
	}
	d.room -= len(b)
	return len(b), nil
}

// sparseRecipe is what a model of sparse rows is made of: how their values change, their scale, how many of the columns are numbers, and
// the kinds of its stages.
type sparseRecipe struct {
	values, scale string
	numbers       int
	kinds         []string
}

func (r sparseRecipe) String() string {
	return fmt.Sprintf("sparse, values %s, scale %s, %d numbers, %s", r.values, r.scale, r.numbers, strings.Join(r.kinds, " and "))
}

func sparseRecipes() (all []sparseRecipe) {
	for _, values := range []string{stages.ValuesNone, stages.ValuesLog, stages.ValuesSqrt, stages.ValuesBinary} {
		for _, scale := range []string{stages.ScaleNone, stages.ScaleUnit} {
			for _, numbers := range []int{0, 3} {
				all = append(all, sparseRecipe{values, scale, numbers, []string{stages.Columns, stages.ClassCounts}})
			}
		}
	}
	return all
}

// model returns the model of a recipe, of random weights.
func (r sparseRecipe) model(t testing.TB) *Model {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 8))
	draw := normals(random)
	factors := make([]float32, width)
	for j := r.numbers; j < width; j++ {
		if j%5 != 4 {
			factors[j] = 0.5 + random.Float32()
		}
	}
	preparation := wire.Tensors[float32]{wire.Vector(statistics.TensorFactors, factors), wire.Words[float32](statistics.TensorLabels, labels)}
	if r.numbers > 0 {
		preparation = append(preparation, wire.Vector(statistics.TensorCenter, draw(r.numbers, 1)), wire.Vector(statistics.TensorScale,
			[]float32{1, 0, 2}))
	}
	plan := &schemas.Plan{Name: "words", Segment: 16, Prepare: schemas.Prepare{Scale: r.scale, Values: r.values}, Intercept: true, Missing: "mean"}
	manifest := &schemas.Manifest{Name: "words", Version: 7, Run: "run", Plan: plan, Labels: labels, LabelType: examples.TypeOf(labels)}
	for j := range r.numbers {
		manifest.Columns = append(manifest.Columns, examples.Column{Name: fmt.Sprint("x", j)})
	}
	for _, kind := range r.kinds {
		plan.Stages = append(plan.Stages, schemas.Stage{Features: stages.DefaultsOf(kind), Link: link.Softmax})
	}
	return (&parts{manifest: manifest, preparation: preparation}).fit(t, random, oracle.Table{})
}

// A model of sparse rows has a graph with two inputs, of any length.
func TestSparseGraph(t *testing.T) {
	for _, r := range sparseRecipes() {
		text := write(t, "onnx", r.model(t))
		for _, name := range []string{"indices", "values", "length", "probabilities"} {
			assert.True(t, strings.Contains(text, name), "%v: the graph has no %s", r, name)
		}
	}
}
