package sink

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

var links = []schemas.Link{schemas.LinkIdentity, schemas.LinkSoftmax, schemas.LinkCalibrated}

func normals(seed uint64, rows, cols int, scale float64) kernel.Dense {
	r, x := rand.New(rand.NewPCG(seed, 1)), kernel.NewDense(rows, cols)
	for i := range x.Data {
		x.Data[i] = float32(scale * r.NormFloat64())
	}
	return x
}

func clone(x kernel.Dense) kernel.Dense {
	x.Data = slices.Clone(x.Data)
	return x
}

// classesOf has one row without a label.
func classesOf(n, k int) []int32 {
	classes := make([]int32, n)
	for i := range classes {
		classes[i] = int32(i % k)
	}
	classes[n/2] = schemas.Unlabelled
	return classes
}

func mustNear(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, expected %v", what, got, want)
	}
}

// simplex is the projection of v by bisection on its threshold.
func simplex(v []float64) []float64 {
	low, high := slices.Min(v)-1, slices.Max(v)
	for range 100 {
		middle, sum := (low+high)/2, 0.0
		for _, x := range v {
			sum += max(x-middle, 0)
		}
		if sum > 1 {
			low = middle
		} else {
			high = middle
		}
	}
	p := make([]float64, len(v))
	for c, x := range v {
		p[c] = max(x-low, 0)
	}
	return p
}

func wide(row []float32) []float64 {
	out := make([]float64, len(row))
	for i, v := range row {
		out[i] = float64(v)
	}
	return out
}

func TestConvertKeepsWhatWasLearnt(t *testing.T) {
	for _, k := range []int{1, 2, 10, 100, 5000} {
		for _, from := range links {
			for _, to := range links {
				score := normals(1, 50, k, 0.01)
				for i := range score.Rows {
					score.Row(i)[i%k] += 0.5 / float32(k)
				}
				want := make([]int32, 50)
				for i := range want {
					want[i] = largest(score.Row(i))
				}
				before := clone(score)
				Convert(score, from, to, make([]float32, k))
				for i := range want {
					if got := largest(score.Row(i)); got != want[i] {
						t.Fatalf("%d classes, %s to %s: row %d predicts %d, before %d", k, from, to, i, got, want[i])
					}
				}
				if (from == schemas.LinkSoftmax) == (to == schemas.LinkSoftmax) && !slices.Equal(score.Data, before.Data) {
					t.Errorf("%s to %s changes scores of the same unit", from, to)
				}
			}
		}
	}
}

// Probabilities survive softmax → identity → softmax, as far as none is below
// the least that a logarithm is taken of.
func TestConvertThereAndBack(t *testing.T) {
	score := normals(2, 64, 5, 1)
	want := clone(score)
	kernel.SoftmaxRows(want, nil, nil)
	Convert(score, schemas.LinkSoftmax, schemas.LinkIdentity, nil)
	if !slices.Equal(score.Data, want.Data) {
		t.Error("predictions are not the probabilities")
	}
	Convert(score, schemas.LinkIdentity, schemas.LinkSoftmax, nil)
	kernel.SoftmaxRows(score, nil, nil)
	for i, p := range score.Data {
		mustNear(t, fmt.Sprint("probability ", i), float64(p), float64(want.Data[i]), 2e-3)
	}
	none := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{1, 0, 0}}
	Convert(none, schemas.LinkCalibrated, schemas.LinkSoftmax, nil)
	for c, want := range []float64{0, math.Log(1e-3), math.Log(1e-3)} {
		mustNear(t, "the score of a certain prediction", float64(none.Data[c]), want, 1e-6)
	}
}

func TestProbabilities(t *testing.T) {
	for _, link := range links {
		score := normals(3, 30, 4, 1)
		got := clone(score)
		Predict(link, got)
		Probabilities(link, got, make([]float32, 4))
		for i := range got.Rows {
			want := simplex(wide(score.Row(i)))
			if link == schemas.LinkSoftmax {
				sum := 0.0
				for _, v := range score.Row(i) {
					sum += math.Exp(float64(v))
				}
				for c, v := range score.Row(i) {
					want[c] = math.Exp(float64(v)) / sum
				}
			}
			for c, p := range got.Row(i) {
				mustNear(t, string(link), float64(p), want[c], 1e-6)
			}
		}
	}
}

// The residual is minus the gradient of the loss in the score, also by
// differences; a row without a label has neither.
func TestResidualsAreTheGradientOfTheLoss(t *testing.T) {
	const n, k = 9, 4
	for _, link := range links {
		score, classes := normals(4, n, k, 1), classesOf(n, k)
		loss, predicted := make([]float32, n), make([]int32, n)
		residual, prediction := clone(score), clone(score)
		Measure(link, residual, classes, loss, predicted, make([]float64, n))
		if Predict(link, prediction); !slices.Equal(residual.Data, prediction.Data) {
			t.Errorf("%s: Measure predicts something else", link)
		}
		Residuals(residual, classes)
		naive := func(row []float64, class int32) float64 {
			sum, squared := 0.0, 0.0
			for c, v := range row {
				sum += math.Exp(v)
				if int32(c) == class {
					v--
				}
				squared += v * v / 2
			}
			if link == schemas.LinkSoftmax {
				return math.Log(sum) - row[class]
			}
			return squared
		}
		for i, class := range classes {
			row := wide(score.Row(i))
			if class == schemas.Unlabelled {
				if loss[i] != 0 || !slices.Equal(residual.Row(i), make([]float32, k)) {
					t.Errorf("%s: a row without a label has loss %v, residual %v", link, loss[i], residual.Row(i))
				}
				continue
			}
			mustNear(t, "the loss", float64(loss[i]), naive(row, class), 1e-5)
			if want := largest(score.Row(i)); predicted[i] != want || slices.Max(row) != row[want] {
				t.Errorf("%s: row %d predicts %d", link, i, predicted[i])
			}
			for c := range row {
				const h = 1e-5
				row[c] += h
				up := naive(row, class)
				row[c] -= 2 * h
				down := naive(row, class)
				row[c] += h
				mustNear(t, "the residual", float64(residual.Row(i)[c]), -(up-down)/(2*h), 1e-6)
			}
		}
	}
}

func TestTargetsAndCubic(t *testing.T) {
	y := normals(1, 3, 2, 1)
	Targets(y, []int32{1, schemas.Unlabelled, 0})
	if want := []float32{0, 1, 0, 0, 1, 0}; !slices.Equal(y.Data, want) {
		t.Errorf("the targets are %v, expected %v", y.Data, want)
	}
	var g kernel.Dense
	Cubic(&g, kernel.Dense{Rows: 1, Cols: 2, Data: []float32{2, -3}})
	if want := []float32{2, -3, 4, 9, 8, -27}; g.Cols != 6 || !slices.Equal(g.Data, want) {
		t.Errorf("G is %v, expected %v", g.Data, want)
	}
}

func TestScoresAndShownAgainstAlgorithm2(t *testing.T) {
	const k = 3
	for _, size := range []struct{ n, p int }{{1, 1}, {0, 5}, {65, 63}, {64, 64}, {63, 65}} {
		before, block := normals(5, size.n, k, 0.3), normals(6, size.n, size.p, 1)
		var chain []ChainLink
		for i := range uint64(3) {
			chain = append(chain, ChainLink{kernel.NewWeights(normals(7+i, size.p, k, 0.05)), normals(17+i, 3*k, k, 0.5)})
		}
		for n := range 4 {
			for _, open := range []bool{false, true} { // the last link without a calibration
				f := &Fitted{Link: schemas.LinkCalibrated, Chain: slices.Clone(chain[:n])}
				if open && n > 0 {
					f.Chain[n-1].Calibration = kernel.Dense{}
				}
				shown, score, w := kernel.NewDense(size.n, k), kernel.NewDense(size.n, k), &Workspace{}
				f.Shown(kernel.Gonum(), w, shown, before, block)
				f.Scores(kernel.Gonum(), score, before, block)
				for i := range size.n {
					total, z := wide(before.Row(i)), wide(before.Row(i))
					for l := range n {
						g := make([]float64, 3*k)
						for c := range z {
							for j, x := range block.Row(i) {
								z[c] += float64(x) * float64(chain[l].W.Row(j)[c])
								total[c] += float64(x) * float64(chain[l].W.Row(j)[c])
							}
							g[c], g[k+c], g[2*k+c] = z[c], z[c]*z[c], z[c]*z[c]*z[c]
						}
						if open && l == n-1 {
							break
						}
						for c := range z {
							z[c] = 0
							for j, v := range g {
								z[c] += v * float64(chain[l].Calibration.Row(j)[c])
							}
						}
						z = simplex(z)
					}
					for c := range k {
						mustNear(t, "what is shown", float64(shown.Row(i)[c]), z[c], 1e-4)
						mustNear(t, "the score", float64(score.Row(i)[c]), total[c], 1e-5)
					}
				}
			}
		}
		for _, link := range []schemas.Link{schemas.LinkIdentity, schemas.LinkSoftmax} {
			score := kernel.NewDense(size.n, k)
			(&Fitted{Link: link}).Scores(kernel.Gonum(), score, before, block)
			if !slices.Equal(score.Data, before.Data) {
				t.Errorf("%s: no weights change the score", link)
			}
			one, other := kernel.NewDense(size.n, k), kernel.NewDense(size.n, k)
			(&Fitted{Link: link, W: chain[0].W}).Scores(kernel.Gonum(), one, before, block)
			(&Fitted{Link: schemas.LinkCalibrated, Chain: chain[:1]}).Scores(kernel.Gonum(), other, before, block)
			if !slices.Equal(one.Data, other.Data) {
				t.Errorf("%s: the step is worth something else in a chain", link)
			}
		}
	}
}

func TestPartsCoverAllRows(t *testing.T) {
	for _, k := range []int{1, 10, 1000, 200_000} {
		most := schemas.MaxResidualRows(k)
		for _, n := range []int{0, 1, most - 1, most, most + 1, 3*most + 2} {
			next := 0
			for from, to := range Parts(n, k) {
				if from != next || to <= from || to-from > most {
					t.Errorf("%d rows of %d classes: a part from %d to %d after %d", n, k, from, to, next)
				}
				next = to
			}
			if next != max(n, 0) {
				t.Errorf("%d rows of %d classes: parts up to %d", n, k, next)
			}
		}
	}
}

func TestMessages(t *testing.T) {
	const k = 1000
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	id := schemas.Identity{Kind: schemas.KindResiduals, Run: "run", Stage: 2, Partition: 1, Parent: schemas.DigestOf([]byte("W"))}
	for _, n := range []int{0, 1, 250} {
		score, residual := normals(1, n, k, 1), normals(2, n, k, 1)
		messages, err := Messages(id, "", 77, score, residual, mem)
		if err != nil {
			t.Fatal(err)
		}
		var scores, residuals []float32
		for _, m := range messages {
			if len(m.Value) > schemas.MaxMessage {
				t.Errorf("a message has %d bytes", len(m.Value))
			}
			r, err := schemas.DecodeResiduals(m, k, mem)
			if err != nil {
				t.Fatal(err)
			}
			if r.Identity != id || r.Offset != 77 || r.Row != len(scores)/k {
				t.Errorf("a part is %v of offset %d from row %d", r.Identity, r.Offset, r.Row)
			}
			scores, residuals = append(scores, r.Score...), append(residuals, r.Residual...)
		}
		if !slices.Equal(scores, score.Data) || !slices.Equal(residuals, residual.Data) {
			t.Errorf("%d messages do not have the %d rows", len(messages), n)
		}
	}
}

func TestDigester(t *testing.T) {
	var d Digester
	if d.Digest() != schemas.DigestOf(nil) {
		t.Error("the digest of nothing")
	}
	var bytes []byte
	for part, score := range [][]float32{{1, 2}, {}, {float32(math.Inf(-1))}} {
		d.Add(int64(10+part), part, score)
		bytes = binary.LittleEndian.AppendUint64(bytes, uint64(10+part))
		bytes = binary.LittleEndian.AppendUint64(bytes, uint64(part))
		for _, v := range score {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
		}
	}
	sum := sha256.Sum256(bytes)
	for range 2 {
		if got := d.Digest(); got != schemas.Digest(hex.EncodeToString(sum[:])) {
			t.Errorf("the digest is %s", got)
		}
	}
}
