package solve

import "math"

const (
	// evidence is the log likelihood ratio from which a change counts: two rates explain the window e¹⁵ times as well as one. It was
	// chosen on 51 streams of MNIST without a change, 11 orders of the rows learnt in up to six ways. With inputs of 64 rows a
	// threshold of 10 gives 6 alarms, one of 12 gives 2 and 15 none, as hard rows come together. The greatest rise then had 9.1 with
	// 64 rows, 7.6 with 256 and 5.5 with 1024. With inputs of 16 rows 15 gives 2 alarms.
	evidence = 15

	// leastRise is the ratio of odds from which a rise is an alarm. In a long window a rise can be certain and yet small: stretches
	// of a file differ, as those of MNIST do by a point. From 3 % to 4 % the ratio is 1.35, from 5 % to 9 % it is 1.9. So stretches
	// of 5000 rows at 3 % and at 4 % by turns are no alarm, as they lack evidence; of 20,000 rows they are, after a third of the rises.
	leastRise = 4. / 3

	// bucketsOfASize bounds how many buckets have the same number of inputs. So the last 7 inputs always are buckets of their own.
	bucketsOfASize = 8
)

// Drift finds out whether a stream has changed, from the errors of predictions that are made before their rows are learnt. A
// model that learns errs less and less, and a change makes it err more: falls of the error rate are followed, rises are alarms.
//
// It is ADWIN, the adaptive window of Bifet and Gavaldà (Learning from time-changing data with adaptive windowing, SDM 2007):
// a window of the newest inputs, in buckets whose sizes double with their age. Wherever the window falls in two parts of different
// rates, the older part goes. Three things differ. An input is not one row but any number of them. The test is the likelihood
// ratio of one rate or two, as in Besson, Kaufmann, Maillard and Seznec (Efficient change-point detection for tackling
// piecewise-stationary bandits, JMLR 2022). Only a rise of the odds by at least a third is an alarm, and a smaller rise stays in the
// window, where a slow one grows.
//
// Measured with 20 seeds each and inputs of 64, 256, 1024 and 4096 rows: no alarm in a million rows of a constant rate (0.1 %, 3 %,
// 30 %, 90 %), nor while the rate falls from 90 %. With 1024 rows an input, a rise from 5 % to 9 % is found after 1000 to 5100 rows,
// one from 5 % to 15 % over 30,000 rows after 7200 to 16,400 of them, and permuted labels of MNIST in the first input that has any.
// ADWIN's own bound at a confidence of 0.002 finds them as early, with 8 false alarms at 30 % and 90 %. At 0.00001 it has none, and
// takes up to 7200 rows from 5 % to 9 %. The test of Page (Continuous inspection schemes, 1954) and Hinkley does not find that rise
// at all if the model had begun at 90 %: it compares with the mean of everything.
//
// The zero value has seen nothing. The state has only sums of inputs: JSON keeps it exactly, and a copy of the struct is a state
// of its own. It grows with the logarithm of the number of inputs.
type Drift struct {
	Buckets []Bucket `json:"buckets,omitempty"` // of the window, oldest first
}

// A Bucket is the sum of inputs that follow each other.
type Bucket struct {
	Inputs int64   `json:"inputs"` // a power of 2
	Rows   float64 `json:"rows"`
	Wrong  float64 `json:"wrong"`
}

// Observe adds the next input: the weight of its rows, and of those that were predicted wrongly. Weights are about 1 a row: if all
// are ten times as large, chance looks like a change. It returns 0 if the error rate has not risen. Otherwise it is an alarm: it
// returns how many of the newest inputs, this one included, belong to what the stream is now, and goes on with these. The newest
// 7 are told apart, those before by twos, fours and so on. It panics unless 0 ≤ wrong ≤ rows < ∞, up to rounding.
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

// add appends an input, and merges the two oldest buckets of each size of which there are too many.
func (d *Drift) add(input Bucket) {
	buckets := make([]Bucket, 0, len(d.Buckets)+1) // a copy of d keeps the old ones
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

// change returns the first bucket after the change for which there is most evidence, or 0 if there is not enough for any, and
// whether the error rate rises there.
func (d *Drift) change() (first int, rise bool) {
	older := make([]Bucket, len(d.Buckets)) // sums of all buckets before: a difference of sums would be rounded
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

// logLikelihood returns the log likelihood of independent rows at the error rate that maximizes it, Wrong / Rows. It is ≤ 0, and 0
// without rows.
func (b Bucket) logLikelihood() float64 {
	var sum float64
	for _, count := range []float64{b.Wrong, b.right()} {
		if count > 0 {
			sum += count * math.Log(count/b.Rows)
		}
	}
	return sum
}
