package solve

import "math"

const (
	// evidence is the log likelihood ratio from which a change counts: two rates explain the window e¹⁵ times better
	// than one. Of 51 streams of MNIST without a change, it is the smallest threshold without a false alarm with inputs of
	// 64 rows: hard rows are clustered.
	evidence = 15

	// leastRise is the minimum odds ratio of an alarm. In a long window a rise can be significant and yet small:
	// stretches of a file differ, by a point for MNIST. From 3 % to 4 % the ratio is 1.35, from 5 % to 9 % it is 1.9.
	leastRise = 4. / 3

	// bucketsOfASize bounds the number of buckets of the same size. So the last 7 inputs always have their own buckets.
	bucketsOfASize = 8
)

// Drift detects changes of a stream, from the errors of predictions made before their rows are learnt. The error rate
// falls as a model learns, and rises after a change: Drift follows falls and reports rises as alarms.
//
// It is ADWIN, the adaptive window of Bifet and Gavaldà (Learning from time-changing data with adaptive windowing, SDM
// 2007): a window of the newest inputs, in buckets whose sizes double with their age. When two parts of the window have
// different rates, the older part is dropped. There are three differences. An input is any number of rows. The test is
// the likelihood ratio of one rate or two, as in Besson, Kaufmann, Maillard and Seznec (Efficient change-point
// detection for tackling piecewise-stationary bandits, JMLR 2022). Only a rise of the odds by at least a third is an
// alarm; a smaller rise stays in the window, so that slow rises accumulate.
//
// With as few false alarms, ADWIN's own bound takes up to 40 % more rows to detect a rise from 5 % to 9 %. The test of
// Page (Continuous inspection schemes, 1954) and Hinkley misses it if the model began at 90 %: it compares with the mean
// of all rows.
//
// The zero value has seen no inputs. The state consists of sums over inputs: JSON preserves it exactly, and a copy of
// the struct is independent. It grows with the logarithm of the number of inputs.
type Drift struct {
	Buckets []Bucket `json:"buckets,omitempty"` // of the window, oldest first
}

// A Bucket is the sum of consecutive inputs.
type Bucket struct {
	Inputs int64   `json:"inputs"` // a power of 2
	Rows   float64 `json:"rows"`
	Wrong  float64 `json:"wrong"`
}

// Observe adds the next input: the weight of its rows, and of its wrongly predicted rows. Weights should be about 1 per
// row: if all are ten times as large, noise looks like a change. Observe returns 0 if the error rate has not risen.
// Otherwise it raises an alarm: it returns the number of newest inputs, including this one, since the change, and keeps
// only these. The last 7 inputs are resolved individually, older ones in groups of two, four and so on. It panics
// unless 0 ≤ wrong ≤ rows < ∞, up to rounding.
func (d *Drift) Observe(rows, wrong float64) (since int64) {
	if !(wrong >= 0 && wrong <= rows*(1+1e-9) && rows <= math.MaxFloat64) {
		panic("solve: an input of a Drift must have 0 ≤ wrong ≤ rows < ∞")
	}
	d.add(Bucket{1, rows, min(wrong, rows)})
	alarm := false
	for {
		first, rise := d.change()
		if first == 0 {
			break
		}
		d.Buckets = d.Buckets[first:]
		alarm = alarm || rise
	}
	if alarm {
		for _, b := range d.Buckets {
			since += b.Inputs
		}
	}
	return since
}

// add appends an input, and merges the two oldest buckets of each size that has too many.
func (d *Drift) add(input Bucket) {
	buckets := make([]Bucket, 0, len(d.Buckets)+1) // a new slice: copies of d share the old one
	buckets = append(append(buckets, d.Buckets...), input)
	for end := len(buckets); end > 0; {
		begin := end - 1
		for begin > 0 && buckets[begin-1].Inputs == buckets[begin].Inputs {
			begin--
		}
		if end-begin <= bucketsOfASize {
			break
		}
		buckets[begin] = buckets[begin].plus(buckets[begin+1])
		buckets = append(buckets[:begin+1], buckets[begin+2:]...)
		end = begin + 1
	}
	d.Buckets = buckets
}

// change returns the first bucket after the most likely change, or 0 if the evidence is insufficient, and whether the
// error rate rises there.
func (d *Drift) change() (first int, rise bool) {
	older := make([]Bucket, len(d.Buckets)) // prefix sums: a difference of sums would be rounded
	for i := 1; i < len(older); i++ {
		older[i] = older[i-1].plus(d.Buckets[i-1])
	}
	var newer Bucket
	most := float64(evidence)
	for i := len(d.Buckets) - 1; i > 0; i-- {
		newer = newer.plus(d.Buckets[i])
		rises := newer.Wrong*older[i].Rows > older[i].Wrong*newer.Rows
		if rises && newer.Wrong*older[i].right() < leastRise*older[i].Wrong*newer.right() {
			continue
		}
		if e := older[i].logLikelihood() + newer.logLikelihood() - older[i].plus(newer).logLikelihood(); e > most {
			first, rise, most = i, rises, e
		}
	}
	return first, rise
}

func (b Bucket) plus(c Bucket) Bucket {
	return Bucket{b.Inputs + c.Inputs, b.Rows + c.Rows, b.Wrong + c.Wrong}
}

func (b Bucket) right() float64 { return max(0, b.Rows-b.Wrong) }

// logLikelihood returns the log likelihood of independent rows at its maximum, the error rate Wrong / Rows. It is ≤ 0,
// and 0 without rows.
func (b Bucket) logLikelihood() float64 {
	var sum float64
	for _, count := range []float64{b.Wrong, b.right()} {
		if count > 0 {
			sum += count * math.Log(count/b.Rows)
		}
	}
	return sum
}
