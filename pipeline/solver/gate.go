package solver

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// hasGateRows reports whether the newest increment has rows for the gate.
func (s *Solver) hasGateRows() bool {
	if s.plan.Chain.Gate == nil {
		return false
	}
	offered, ok := s.chained.found.sum.Tensors().Find(statistics.FieldOffered)
	return ok && len(offered.Data) > 0 && offered.Data[0] > 0
}

// compare compares the run's version with the version for subscribers, from the sums of the visit with the run's weights.
func (s *Solver) compare(sum *accumulate.Sum) {
	if s.chained.compared = nil; s.plan.Chain == nil || !s.hasGateRows() {
		return
	}
	s.chained.compared = compareSums(s.chained.found.sum.Tensors(), sum.Tensors(), s.chain.Prepared)
}

// gateChance is the significance level of the gate: how often it withholds a version that is worse than the offered one by
// exactly the margin. Of versions that are worse by a tenth of a log loss of 0.38, it then withholds 95 % with 1,000 rows,
// and 36 % with 200.
const gateChance = 0.02

// gateDisagreement is the number of standard errors by which a version must be better on the newest rows for the rows of
// older increments to be ignored: the stream may have changed, and the version has adapted. If it has not, one of 100
// versions that are worse by a tenth passes for this reason with 200 new rows and 800 older ones; with 0 it would be three.
const gateDisagreement = 0.5

// gateGroup is the losses of two versions on a group of rows: Σw, and Σw·loss of the version for subscribers and of the
// run's version.
type gateGroup struct{ weight, offered, made float64 }

// newestGroups returns the groups of the newest increment's rows, from each group's Σw and Σw·loss as measured with either
// version. It omits groups for which the versions were measured on different rows, because a row overflows in only one.
func newestGroups(offered, made []float64) (groups []gateGroup) {
	for ; len(offered) > 0; offered, made = offered[2:], made[2:] {
		if w := offered[0]; w > 0 && math.Abs(w-made[0]) <= 1e-9*w {
			groups = append(groups, gateGroup{w, offered[1], made[1]})
		}
	}
	return groups
}

// gateComparison is the losses of two versions on the same rows.
type gateComparison struct {
	weight, revisited float64 // Σw of all rows, and of the rows in revisited increments
	offered, made     float64 // mean losses of the version for subscribers and of the run's version
	// deviation is the standard error of made − offered, from the random groups of rows (Wolter, Introduction to Variance
	// Estimation, 2007, chapter 2); infinite with rows in one group only.
	deviation float64
	// groups is the number of compared groups.
	groups int
	// newest is the comparison on the newest increment alone; nil: there are no other rows.
	newest *gateComparison
}

// compareGroups compares losses by group, of the newest increment and of revisited ones. It returns nil if the newest
// increment has no groups.
func compareGroups(newest, revisited []gateGroup) *gateComparison {
	if len(newest) == 0 {
		return nil
	}
	c := compareAll(slices.Concat(newest, revisited))
	if len(revisited) > 0 {
		c.newest = compareAll(newest)
		c.revisited = c.weight - c.newest.weight
	}
	return c
}

// compareAll compares losses by group. There must be at least one group.
func compareAll(groups []gateGroup) *gateComparison {
	c := &gateComparison{deviation: math.Inf(1), groups: len(groups)}
	for _, g := range groups {
		c.weight += g.weight
		c.offered += g.offered
		c.made += g.made
	}
	c.offered, c.made = c.offered/c.weight, c.made/c.weight
	if c.groups > 1 {
		sum := 0.0
		for _, g := range groups {
			d := g.made - g.offered - g.weight*(c.made-c.offered)
			sum += d * d
		}
		c.deviation = math.Sqrt(sum*float64(c.groups)/float64(c.groups-1)) / c.weight
	}
	return c
}

// worse reports whether the version is worse than the offered one by more than a margin, beyond chance: by a one-sided
// test of the paired losses that the newest rows alone do not contradict.
func (c *gateComparison) worse(margin float64) bool {
	if c == nil || math.IsNaN(c.offered) {
		return false
	}
	if math.IsNaN(c.made) {
		return true
	}
	if c.groups == 1 || c.newest.better() {
		return false
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(c.groups - 1)}.Quantile(1 - gateChance)
	return c.made-c.offered-t*c.deviation > margin
}

// better reports whether the version seems better than the offered one.
func (c *gateComparison) better() bool {
	return c != nil && c.offered-c.made > gateDisagreement*c.deviation
}

// good reports whether the loss of the version exceeds that of the offered one by at most a margin.
func (c *gateComparison) good(margin float64) bool { return c != nil && c.made-c.offered <= margin }

// report returns the comparison for the report of the run; nil if there is none.
func (c *gateComparison) report() *schemas.GateReport {
	if c == nil {
		return nil
	}
	r := &schemas.GateReport{Weight: c.weight, Revisited: c.revisited, Loss: wire.Finite(c.made), OfferedLoss: wire.Finite(c.offered)}
	if c.groups > 1 {
		deviation := wire.Finite(c.deviation)
		r.StandardError = &deviation
	}
	return r
}

// compareSums compares two versions, from a survey's sums with the offered one and a visit's sums with the run's. prepared is the
// preparation of the run. Without sums it returns nil.
func compareSums(survey, visit wire.Tensors[float64], prepared *stages.Preparation) *gateComparison {
	scale := prepared.TargetScale // nil for classification
	fields := 1 + max(len(scale), 1)
	offered := offeredGroups(survey, fields, prepared)
	if offered == nil {
		return nil
	}
	made, err := visit.Shaped(schemas.FieldJudgedGroups, schemas.GateGroups, 2)
	if err != nil {
		return nil
	}
	losses := make([]float64, 0, len(made))
	for at := range len(offered) / fields {
		sums := offered[at*fields:][:fields]
		loss := sums[1]
		if scale != nil { // in the units of the run
			loss = 0
			for i, unit := range scale {
				loss += sums[1+i] / (float64(unit) * float64(unit))
			}
		}
		losses = append(losses, sums[0], loss)
	}
	var revisited []gateGroup
	again, _ := visit.Shaped(schemas.FieldRevisitedGroups, schemas.GateGroups, 3) // an error means that there are no such rows
	for sums := range slices.Chunk(again, 3) {
		if sums[0] > 0 {
			revisited = append(revisited, gateGroup{sums[0], sums[1], sums[2]})
		}
	}
	return compareGroups(newestGroups(losses, made), revisited)
}

// offeredGroups returns the losses of the offered version by group, with the weights of classes; nil if there are none.
func offeredGroups(survey wire.Tensors[float64], fields int, prepared *stages.Preparation) (groups []float64) {
	for _, t := range survey {
		label, byLabel := strings.CutPrefix(t.Name, schemas.FieldOfferedGroups+"/")
		sums, err := survey.Shaped(t.Name, schemas.GateGroups, fields)
		if err != nil || !byLabel && t.Name != schemas.FieldOfferedGroups {
			continue
		}
		weight := 1.0
		if byLabel {
			weight = prepared.ClassWeight(int32(slices.Index(prepared.Labels.Text(), prepared.Labels.Spelt(label))))
		}
		if groups == nil {
			groups = make([]float64, len(sums))
		}
		floats.AddScaled(groups, weight, sums)
	}
	return groups
}
