package sink

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

func TestScoresAndShownAgainstAlgorithm2(t *testing.T) {
	const k = 3
	for _, size := range []struct{ n, p int }{{1, 1}, {0, 5}, {65, 63}, {64, 64}, {63, 65}} {
		before, block := oracle.Normals(5, size.n, k, 0.3), oracle.Normals(6, size.n, size.p, 1)
		var passes []CalibratedPass
		for i := range uint64(3) {
			passes = append(passes, CalibratedPass{kernel.NewWeights(oracle.Normals(7+i, size.p, k, 0.05)), oracle.Normals(17+i, 3*k, k, 0.5)})
		}
		for n := range 4 {
			for _, open := range []bool{false, true} { // the last pass has no calibration yet
				f := &Fitted{Passes: slices.Clone(passes[:n])}
				if open && n > 0 {
					f.Passes[n-1].Calibration = kernel.Dense{}
				}
				shown, score, w := kernel.NewDense(size.n, k), kernel.NewDense(size.n, k), &Workspace{}
				f.Shown(kernel.Gonum(), w, shown, before, block)
				f.Scores(kernel.Gonum(), score, before, block)
				for i := range size.n {
					total, z := oracle.Wide(before.Row(i)), oracle.Wide(before.Row(i))
					for l := range n {
						g := make([]float64, 3*k)
						for c := range z {
							for j, x := range block.Row(i) {
								z[c] += float64(x) * float64(passes[l].W.Row(j)[c])
								total[c] += float64(x) * float64(passes[l].W.Row(j)[c])
							}
							g[c], g[k+c], g[2*k+c] = z[c], z[c]*z[c], z[c]*z[c]*z[c]
						}
						if open && l == n-1 {
							break
						}
						for c := range z {
							z[c] = 0
							for j, v := range g {
								z[c] += v * float64(passes[l].Calibration.Row(j)[c])
							}
						}
						z = oracle.Simplex(z)
					}
					for c := range k {
						assert.Near(t, float64(shown.Row(i)[c]), z[c], 1e-4, "what is shown")
						assert.Near(t, float64(score.Row(i)[c]), total[c], 1e-5, "the score")
					}
				}
			}
		}
		score := kernel.NewDense(size.n, k)
		(&Fitted{}).Scores(kernel.Gonum(), score, before, block)
		assert.True(t, slices.Equal(score.Data, before.Data), "a stage without weights changes the score")
		one, other, shown := kernel.NewDense(size.n, k), kernel.NewDense(size.n, k), kernel.NewDense(size.n, k)
		known := &Fitted{W: passes[0].W}
		known.Scores(kernel.Gonum(), one, before, block)
		known.Shown(kernel.Gonum(), &Workspace{}, shown, before, block)
		(&Fitted{Passes: passes[:1]}).Scores(kernel.Gonum(), other, before, block)
		assert.True(t, slices.Equal(one.Data, other.Data),
			"the weights of a pass change the score by something else than the same weights of a known link")
		assert.True(t, slices.Equal(one.Data, shown.Data), "a stage with a known link predicts from something else than its score")
	}
}

func TestPartsCoverAllRows(t *testing.T) {
	for _, k := range []int{1, 10, 1000, 200_000} {
		size := schemas.MaxResidualsRows(k)
		for _, n := range []int{0, 1, size - 1, size, size + 1, 3*size + 2} {
			next := 0
			for from, to := range Parts(n, k) {
				assert.True(t, from == next && to > from && to-from <= size,
					"%d rows of %d values: a part from %d to %d after %d", n, k, from, to, next)
				next = to
			}
			assert.Equal(t, next, max(n, 0), "%d rows of %d values: the end of the parts", n, k)
		}
	}
}

func TestMessages(t *testing.T) {
	const k = 1000
	mem := assert.Allocator(t)
	id := wire.Identity{Kind: schemas.KindResiduals, Run: "run", Stage: 2, Partition: 1, Parent: wire.DigestJSON("W")}
	for _, n := range []int{0, 1, 250} {
		score, residual, votes := oracle.Normals(1, n, k, 1), oracle.Normals(2, n, k, 1), oracle.Normals(3, n, k, 1)
		messages := assert.Must(Messages(id, "", 77, Finished{score, residual, votes}, mem))(t)
		var scores, left, voted []float32
		for _, m := range messages {
			assert.True(t, len(m.Value) <= wire.MaxMessage, "a message has %d bytes", len(m.Value))
			r := assert.Must(schemas.DecodeResiduals(m, k, mem))(t)
			assert.True(t, r.Identity == id && r.Offset == 77 && r.Row == len(scores)/k,
				"a part has identity %v, offset %d and first row %d", r.Identity, r.Offset, r.Row)
			scores, left, voted = append(scores, r.Score...), append(left, r.Residual...), append(voted, r.Votes...)
		}
		assert.True(t, slices.Equal(scores, score.Data) && slices.Equal(left, residual.Data) && slices.Equal(voted, votes.Data),
			"%d messages do not hold the %d rows", len(messages), n)
	}
}

func TestDigester(t *testing.T) {
	var d Digester
	assert.Equal(t, d.Digest(), wire.Digest("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
		"the digest of no scores, and of no bytes")
	var bytes []byte
	for part, score := range [][]float32{{1, 2}, {}, {float32(math.Inf(-1))}} {
		votes := score[:len(score)/2]
		d.Add(int64(10+part), part, score, votes)
		bytes = binary.LittleEndian.AppendUint64(bytes, uint64(10+part))
		bytes = binary.LittleEndian.AppendUint64(bytes, uint64(part))
		for _, v := range slices.Concat(score, votes) {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
		}
	}
	sum := sha256.Sum256(bytes)
	for range 2 {
		assert.Equal(t, d.Digest(), wire.Digest(hex.EncodeToString(sum[:])), "digest")
	}
}

// A score that overflows stays that before the stage, whatever the link.
func TestScoresThatOverflow(t *testing.T) {
	w, identity := kernel.Dense{Rows: 1, Cols: 2, Data: []float32{1e30, 1}}, kernel.NewDense(6, 2)
	identity.Row(0)[0], identity.Row(1)[1] = 1, 1
	before, block := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, 2, 3, 4, 5, 6}}, kernel.Dense{Rows: 3, Cols: 1,
		Data: []float32{0, 1, 3e38}}
	for name, f := range map[string]*Fitted{"known": {W: kernel.NewWeights(w)},
		"learnt": {Passes: []CalibratedPass{{W: kernel.NewWeights(w)}}}} {
		for what, scores := range map[string]func(dst kernel.Dense) []int{
			"scores": func(dst kernel.Dense) []int { return f.Scores(kernel.Gonum(), dst, before, block) },
			"shown":  func(dst kernel.Dense) []int { return f.Shown(kernel.Gonum(), &Workspace{}, dst, before, block) },
		} {
			dst := kernel.NewDense(3, 2)
			assert.Equal(t, scores(dst), []int{1, 2}, "%s %s: the rows that overflow", name, what)
			assert.Equal(t, dst.Data, before.Data, "%s %s", name, what)
		}
	}
	f := &Fitted{Passes: []CalibratedPass{{W: kernel.NewWeights(w), Calibration: identity}}}
	dst := kernel.NewDense(3, 2)
	f.Shown(kernel.Gonum(), &Workspace{}, dst, before, block)
	assert.True(t, !slices.ContainsFunc(dst.Data, func(v float32) bool { return v-v != 0 }), "calibrated predictions are %v", dst.Data)
}

// The scores without what a row itself counts are those by the counts of the other rows.
func TestCountsLeaveOut(t *testing.T) {
	const n, p, k, smoothing, weight = 4, 3, 3, 0.1, 0.7
	block := kernel.Sparse{Rows: n, Cols: p, Ones: true, Starts: []int{0, 2, 4, 5, 6},
		Columns: []int32{0, 2, 1, 2, 1, 0}, Values: []float32{1, 2, 3, 1, 2, 1}}
	wide := [n][p + 1]float64{{1, 0, 2, 1}, {0, 3, 1, 1}, {0, 2, 0, 1}, {1, 0, 0, 1}}
	classes, factors := []int32{0, 1, 0, -1}, []float32{1, 2, 0, 1} // the last two rows are not counted
	all, one := &Counts{Smoothing: smoothing, Weight: weight}, map[bool]float64{true: 1}
	scores := func(i, without int) (scores [k]float64) {
		all.All, all.Totals = make([]float32, (p+1)*k), make([]float64, k)
		for row, class := range classes[:2] {
			for j, x := range wide[row] {
				if counted := float32(x) * factors[row]; row != without {
					all.All[j*k+int(class)] += counted
					all.Totals[class] += float64(counted) * float64(1-j/p) // without the column of ones
				}
			}
		}
		for at := range k * (p + 1) * k { // less their mean over the classes
			score, class, j := at%k, at/k%k, at/k/k
			share := (float64(all.All[j*k+class]) + smoothing) / math.Pow(all.Totals[class]+p*smoothing, float64(1-j/p))
			scores[score] += weight * wide[i][j] * math.Log(share) * (one[score == class] - 1.0/k)
		}
		return scores
	}
	left := kernel.NewDense(n, k)
	for at := range left.Data {
		left.Data[at] = float32(scores(at/k, n)[at%k])
	}
	all.LeaveOut(left, block, classes, factors)
	for at, got := range left.Data {
		assert.Near(t, float64(got), scores(at/k, at/k)[at%k], 1e-5, "a score by the other rows")
	}
}
