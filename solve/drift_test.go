package solve

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// rows returns inputs of size rows each, with independent errors; row i has the error rate rate(i).
func rows(seed uint64, size, inputs int, rate func(row int) float64) []Bucket {
	r := rand.New(rand.NewPCG(seed, 1))
	result := make([]Bucket, inputs)
	for i := range result {
		result[i].Rows = float64(size)
		for j := range size {
			if r.Float64() < rate(i*size+j) {
				result[i].Wrong++
			}
		}
	}
	return result
}

// alarms returns the index of each input that raises an alarm, and the number of inputs since each change.
func alarms(inputs []Bucket) (at, since []int) {
	var d Drift
	for i, input := range inputs {
		if n := d.Observe(input.Rows, input.Wrong); n > 0 {
			at, since = append(at, i), append(since, int(n))
		}
	}
	return at, since
}

func steady(rate float64) func(int) float64 { return func(int) float64 { return rate } }

// learning is the error rate of a model of MNIST after the given number of rows: 90 %, 10 % after 2500, 4 % after 20,000.
func learning(row int) float64 { return 0.03 + 0.87*math.Pow(1+float64(row)/600, -1.3) }

// From changed on, the rate differs.
func then(before func(int) float64, changed int, after func(int) float64) func(int) float64 {
	return func(row int) float64 {
		if row < changed {
			return before(row)
		}
		return after(row - changed)
	}
}

// weighted returns weighted inputs of every kind: with one drift or two, without errors, without rows.
func weighted(seed uint64) []Bucket {
	r := rand.New(rand.NewPCG(seed, 2))
	result, rate := make([]Bucket, 300), 0.5
	for i := range result {
		if r.IntN(50) == 0 {
			rate = r.Float64() * r.Float64()
		}
		result[i].Rows = 500 * r.Float64() * float64(min(1, r.IntN(5)))
		result[i].Wrong = result[i].Rows * rate * (0.9 + 0.1*r.Float64())
	}
	return result
}

// A detector that is saved and restored before every input, or copied, continues as if uninterrupted.
func TestDriftIsAFold(t *testing.T) {
	total := 0
	for seed := range uint64(20) {
		var whole, restored Drift
		for i, input := range weighted(seed) {
			saved := assert.Must(json.Marshal(restored))(t)
			restored = Drift{}
			assert.NoError(t, json.Unmarshal(saved, &restored))
			kept := whole
			want := whole.Observe(input.Rows, input.Wrong)
			if again := kept.Observe(input.Rows, input.Wrong); again != want || !reflect.DeepEqual(kept, whole) {
				t.Fatalf("seed %d, input %d: a copy returns %d and is %v, expected %d and %v", seed, i, again, kept, want, whole)
			}
			if got := restored.Observe(input.Rows, input.Wrong); got != want || !reflect.DeepEqual(restored, whole) {
				t.Fatalf("seed %d, input %d: restored it returns %d and is %v, expected %d and %v", seed, i, got, restored, want, whole)
			}
			if want > 0 {
				total++
			}
		}
	}
	assert.True(t, total >= 20, "%d alarms in 20 streams that change often", total)
}

// A rate that never rises, or is constant, raises no alarm, for any division of rows into inputs.
func TestDriftIgnoresFalls(t *testing.T) {
	for seed := range uint64(50) {
		var falling, level Drift
		r := rand.New(rand.NewPCG(seed, 3))
		rate := r.Float64()
		for i := range 500 {
			n := math.Ceil(5000 * r.Float64())
			if seed%2 == 0 || i%100 == 0 {
				rate *= 1 - 0.2*r.Float64()*r.Float64()
			}
			since := falling.Observe(n, n*rate)
			assert.Need(t, since <= 0, "seed %d: alarm at input %d of a falling rate", seed, i)
			if since := level.Observe(n, n/8); since > 0 || level.inputs() != int64(i+1) {
				t.Fatalf("seed %d: input %d of a constant rate returns %d, and %d inputs are left", seed, i, since, level.inputs())
			}
		}
	}
}

func (d Drift) inputs() (n int64) {
	for _, b := range d.Buckets {
		n += b.Inputs
	}
	return n
}

// The window follows a decrease: the rest has the lower rate.
func TestDriftFollowsAFall(t *testing.T) {
	var d Drift
	for _, input := range rows(1, 1024, 60, then(steady(0.9), 20*1024, steady(0.03))) {
		d.Observe(input.Rows, input.Wrong)
	}
	assert.Equal(t, d.inputs(), 40, "inputs that are left after a fall at input 20 of 60")
}

// Noise alone raises no alarm: not at a constant rate, not while a model learns, not if stretches of the stream differ by a point.
func TestDriftIgnoresChance(t *testing.T) {
	stretches := func(row int) float64 { return 0.03 + 0.01*float64(row/5000%2) }
	for name, rate := range map[string]func(int) float64{
		"0.1 %": steady(0.001), "3 %": steady(0.03), "30 %": steady(0.3), "90 %": steady(0.9), "none": steady(0), "all": steady(1),
		"learning":  learning,
		"stretches": stretches, "learning in stretches": func(row int) float64 { return learning(row) + stretches(row) - 0.03 },
	} {
		for _, size := range []int{64, 256, 1024, 4096} {
			for seed := range uint64(10) {
				at, _ := alarms(rows(seed, size, 60_000/size, rate))
				assert.True(t, len(at) == 0, "%s, inputs of %d rows, seed %d: alarms at inputs %d", name, size, seed, at)
			}
		}
	}
}

// Changes are detected in time, without earlier alarms. Delays are in rows.
func TestDriftFindsChanges(t *testing.T) {
	const changed = 30 * 1024
	slow := func(row int) float64 { return 0.05 + 0.1*min(1, float64(row)/30_000) }
	for name, c := range map[string]struct {
		rate  func(int) float64
		delay int
	}{
		"3 % to 80 %":                     {then(steady(0.03), changed, steady(0.8)), 1024},
		"while it learns, to 80 %":        {then(learning, changed, steady(0.8)), 1024},
		"to all":                          {then(steady(0), changed, steady(1)), 1024},
		"5 % to 9 %":                      {then(steady(0.05), changed, steady(0.09)), 10_000},
		"while it learns, to 9 %":         {then(func(row int) float64 { return 0.02 + learning(row) }, changed, steady(0.09)), 10_000},
		"5 % to 15 % over 30,000 rows":    {then(steady(0.05), changed, slow), 20_000},
		"the same, while it still learns": {then(func(row int) float64 { return 0.02 + learning(row) }, changed, slow), 20_000},
	} {
		for _, size := range []int{64, 256, 1024} {
			for seed := range uint64(10) {
				at, since := alarms(rows(seed, size, 60*1024/size, c.rate))
				if len(at) == 0 || at[0] < changed/size || (at[0]+1)*size-changed > c.delay {
					t.Errorf("%s, inputs of %d rows, seed %d: alarms at inputs %d, expected the first within %d rows after input %d",
						name, size, seed, at, c.delay, changed/size)
				} else if c.delay == 1024 && (since[0] != at[0]+1-changed/size || len(at) > 1) {
					t.Errorf("%s, inputs of %d rows, seed %d: alarms at %d since %d inputs, expected one since input %d",
						name, size, seed, at, since, changed/size)
				}
			}
		}
	}
}

// After an alarm the detector adapts to the new rate without further alarms, and the next change raises one.
func TestDriftAfterAnAlarm(t *testing.T) {
	const changed = 30 * 1024
	at, since := alarms(rows(1, 1024, 90, then(learning, changed, then(learning, changed, learning))))
	assert.Equal(t, at, []int{30, 60}, "inputs at which there are alarms")
	assert.Equal(t, since, []int{1, 1}, "inputs since each change")
}

// The state grows with the logarithm of the number of inputs: 8 buckets of each size, with separate buckets for the last 7 inputs.
func TestDriftIsSmall(t *testing.T) {
	var d Drift
	for i := range 10_000 {
		d.Observe(64, float64(i%2))
		most := bucketsOfASize * (1 + int(math.Log2(float64(i+1))))
		assert.Need(t, len(d.Buckets) <= most, "%d buckets after %d inputs, expected at most %d", len(d.Buckets), i+1, most)
		for j, b := range d.Buckets {
			if j >= len(d.Buckets)-7 && b.Inputs != 1 || j > 0 && b.Inputs > d.Buckets[j-1].Inputs {
				t.Fatalf("after %d inputs bucket %d of %d has %d inputs", i+1, j, len(d.Buckets), b.Inputs)
			}
		}
	}
	assert.Equal(t, d.inputs(), 10_000, "inputs in the window")
}
