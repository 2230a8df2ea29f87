package tree

import (
	"errors"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
)

// Contributions computes what each column adds to the scores of rows in a forest: the path-dependent Shapley values of TreeSHAP
// (Lundberg, Erion and Lee 2018). Among rows without the value of a column, as many go left at a node as its cover says. Make it with
// [NewContributions]. It is immutable.
//
// The Shapley value of a column is the mean of its effect along the diagonal of the multilinear extension (Owen 1972):
//
//	φⱼ = Σ over leaves  w · (oⱼ − zⱼ) · ∫₀¹ Π over the other columns i of the path (zᵢ(1−t) + oᵢt) dt
//
// with oⱼ = 1 if the row passes all nodes of column j on the path to the leaf, otherwise 0, and zⱼ the share of rows that do. The
// integrand is a polynomial of t, so Gauss–Legendre quadrature is exact.
//
// All that counts of a row is thus which leaves' conditions it passes, by column. For neighbouring leaves these are few states, so that
// a table has the sums over the leaves for each of them, as in Fast TreeSHAP (Yang 2021).
type Contributions struct {
	base        []float64
	columns     int // of a row
	parts       []part
	quadratures [MaxLeaves/2 + 1]quadrature // of each number of points
}

const (
	// partStates is the largest number of states of a part of several leaves.
	partStates = 1 << 10
	// leafStates is the largest number of states of a part of one leaf. The effects of a leaf with more are computed for each row.
	leafStates = 4 * partStates
	// tableBytes is the most memory for the tables of a forest. If it is too little, parts have fewer states.
	tableBytes = 32 << 20
)

// part is some neighbouring leaves of a tree.
type part struct {
	leaves []leaf
	splits []split // of the columns of the paths to the leaves
	states int     // the product of those of the splits; 0: too many for tables
	tables int
	sums   []sum
	values []float32 // of the tables (tables × states), which are the effects of one leaf, or sums over the leaves
}

// leaf is a leaf of a tree.
type leaf struct {
	weights []float32 // k
	factors []factor  // of the columns of the path
}

// factor is the nodes of a column on the path to a leaf.
type factor struct {
	column int
	share  float64     // of the rows that pass all of them
	passes [Codes]bool // codes of the rows that do
}

// split divides the codes of a column into states. Rows in the same state pass the same leaves' factors of the column.
type split struct {
	column int
	count  int // of the states
	states [Codes]uint8
}

// sum is what a part adds to a column of the results: a weight times the value of a table, or of one leaf the effect of a factor.
type sum struct {
	at, table int
	weight    float64
}

// ErrNoCovers means that the covers of a forest are unknown.
var ErrNoCovers = errors.New("the trees have no covers, as they were grown before versions had them")

// NewContributions returns the contributions to the scores of a forest over columns. weights are those of its leaves ([Forest.Size] × k).
// places are the columns of the result to which each column belongs. The error is [ErrNoCovers].
func NewContributions(f Forest, places []int, weights []float32, k int) (*Contributions, error) {
	return newContributions(f, places, weights, k, tableBytes)
}

func newContributions(f Forest, places []int, weights []float32, k, tableBytes int) (*Contributions, error) {
	if f.Covers == nil {
		return nil, ErrNoCovers
	}
	c := &Contributions{base: make([]float64, k), columns: len(places)}
	paths, trees := &paths{Forest: f, k: k, covers: f.Covers}, make([][]leaf, len(f.Sizes))
	for t, size := range f.Sizes {
		paths.weights, paths.leaves = weights[t*f.Leaves*k:], nil
		paths.follow(int(size), nil)
		trees[t] = paths.leaves
		for _, l := range trees[t] {
			share := 1.0
			for i := range l.factors {
				share *= l.factors[i].share
			}
			for out, w := range l.weights {
				c.base[out] += share * float64(w)
			}
		}
	}
	for fewer, bytes := 1, tableBytes+1; bytes > tableBytes; fewer *= 2 {
		c.parts, bytes = nil, 0
		for _, leaves := range trees {
			c.parts = append(c.parts, partsOf(leaves, partStates/fewer, leafStates/fewer)...)
		}
		for i := range c.parts {
			p := &c.parts[i]
			p.setSums(places, k)
			bytes += 4 * p.tables * p.states
		}
	}
	for n := range len(c.quadratures) - 1 {
		q := &c.quadratures[n+1]
		*q = quadrature{make([]float64, n+1), make([]float64, n+1)}
		quad.Legendre{}.FixedLocations(q.at, q.weights, 0, 1)
	}
	for i := range c.parts {
		c.fill(&c.parts[i])
	}
	return c, nil
}

// paths are those to the leaves of a tree.
type paths struct {
	Forest
	k       int
	node    int       // the next one in preorder
	covers  []float32 // of the leaves from the next one on
	weights []float32 // of these leaves
	leaves  []leaf
}

// follow adds the leaves of a subtree of so many nodes, to which a path leads.
func (p *paths) follow(nodes int, path []factor) {
	if nodes == 0 {
		p.leaves = append(p.leaves, leaf{p.weights[:p.k], path})
		p.covers, p.weights = p.covers[1:], p.weights[p.k:]
		return
	}
	node, left, all := p.node, int(p.Lefts[p.node]), coverOf(p.covers[:nodes+1])
	order := int(p.Compared[node])
	column, ranks := int(p.Orders.Columns[order]), p.Orders.RanksOf(order)
	p.node++
	for side, nodesOfSide := range []int{left, nodes - 1 - left} {
		share := float64(nodesOfSide+1) / float64(nodes+1) // if no row is known
		if all > 0 {
			share = coverOf(p.covers[:nodesOfSide+1]) / all
		}
		longer := slices.Clone(path)
		at := slices.IndexFunc(path, func(f factor) bool { return f.column == column })
		if at < 0 {
			at, longer = len(path), append(longer, factor{column: column, share: 1})
			for code := range longer[at].passes {
				longer[at].passes[code] = true
			}
		}
		f := &longer[at]
		f.share *= share
		for code := range f.passes {
			rank := uint8(code)
			if ranks != nil {
				rank = ranks[code]
			}
			if goesRight := rank > p.Cuts[node]; goesRight != (side == 1) {
				f.passes[code] = false
			}
		}
		p.follow(nodesOfSide, longer)
	}
}

// coverOf returns the weight of the rows of leaves.
func coverOf(covers []float32) (sum float64) {
	for _, w := range covers {
		sum += float64(w)
	}
	return sum
}

// partsOf divides the leaves of a tree into parts of at most so many states, if they have several leaves, or else one.
func partsOf(leaves []leaf, ofSeveral, ofOne int) (parts []part) {
	var p part
	for _, l := range leaves {
		larger := p.with(l, ofOne)
		if len(p.leaves) > 0 && (larger.states == 0 || larger.states > ofSeveral) {
			parts, larger = append(parts, p), part{}.with(l, ofOne)
		}
		p = larger
	}
	return append(parts, p)
}

// with returns the part with another leaf, which has 0 states if there are more than so many.
func (p part) with(l leaf, most int) part {
	p.leaves, p.splits, p.states = append(slices.Clip(p.leaves), l), slices.Clone(p.splits), 1
	for i := range l.factors {
		at := p.splitOf(l.factors[i].column)
		if at < 0 {
			at, p.splits = len(p.splits), append(p.splits, split{column: l.factors[i].column})
		}
		p.splits[at].divide(&l.factors[i].passes)
	}
	for i := range p.splits {
		if p.states *= p.splits[i].count; p.states > most {
			p.states = 0
		}
	}
	return p
}

// splitOf returns the index of the split of a column; −1: there is none.
func (p *part) splitOf(column int) int {
	return slices.IndexFunc(p.splits, func(s split) bool { return s.column == column })
}

// divide divides each state into the codes that pass a factor and those that do not. There are always two states or more, so that
// a leaf of few states has few factors.
func (s *split) divide(passes *[Codes]bool) {
	var states [2][Codes]int // 1 + the new state, by whether a code passes and its old state
	n := 0
	for code, old := range s.states {
		to := &states[0][old]
		if passes[code] {
			to = &states[1][old]
		}
		if *to == 0 {
			n++
			*to = n
		}
		s.states[code] = uint8(*to - 1)
	}
	s.count = max(n, 2)
}

// setSums sets what the part adds to results of places × k, and the number of tables. Those of one leaf do not depend on the output.
func (p *part) setSums(places []int, k int) {
	p.tables = len(p.splits)
	if len(p.leaves) > 1 {
		p.tables *= k
	}
	for i := range p.splits {
		for out := range k {
			to := sum{places[p.splits[i].column]*k + out, i, float64(p.leaves[0].weights[out])}
			if len(p.leaves) > 1 {
				to.table, to.weight = i*k+out, 1
			}
			p.sums = append(p.sums, to)
		}
	}
}

// fill computes the tables of a part, unless it has too many states.
func (c *Contributions) fill(p *part) {
	if p.states == 0 {
		return
	}
	values := make([]float64, p.tables*p.states)
	for _, l := range p.leaves {
		d := len(l.factors)
		effects, passes := make([]float64, d<<d), make([]float64, d)
		for passed := range 1 << d {
			for j := range passes {
				passes[j] = float64(passed >> j & 1)
			}
			c.effects(effects[passed*d:][:d], passes, l.factors)
		}
		passed := p.passed(l)
		for j := range l.factors {
			of, first := p.tables/len(p.splits), p.splitOf(l.factors[j].column)
			for out := range of {
				w, table := 1.0, values[(first*of+out)*p.states:][:p.states]
				if len(p.leaves) > 1 {
					w = float64(l.weights[out])
				}
				for state, passed := range passed {
					table[state] += w * effects[passed*d+j]
				}
			}
		}
	}
	p.leaves, p.values = nil, make([]float32, len(values))
	for i, v := range values {
		p.values[i] = float32(v)
	}
}

// passed returns for each state of the part which factors of a leaf a row passes, as bits.
func (p *part) passed(l leaf) []int {
	all := []int{0}
	for i := range p.splits {
		s, bits := &p.splits[i], [Codes]int{}
		for j := range l.factors {
			if f := &l.factors[j]; f.column == s.column {
				for code, state := range s.states {
					if f.passes[code] {
						bits[state] = 1 << j
					}
				}
			}
		}
		n := len(all)
		for _, bit := range bits[1:s.count] {
			for _, passed := range all[:n] {
				all = append(all, passed|bit)
			}
		}
		for at := range n {
			all[at] |= bits[0]
		}
	}
	return all
}

// Base returns the mean score of rows whose columns are all unknown (k), from which contributions count. It must not be changed.
func (c *Contributions) Base() []float64 { return c.base }

// Add adds the contributions to the results of rows (places × k × n), given the codes of the rows (n × columns). It reads all tables, so
// that many rows at once take less time each.
func (c *Contributions) Add(results []float64, codes []uint8) {
	n := len(codes) / c.columns
	columns, states := make([]uint8, len(codes)), make([]uint16, n)
	sums := make([]float32, len(results))
	for i := range n {
		for j := range c.columns {
			columns[j*n+i] = codes[i*c.columns+j]
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.states == 0 {
			c.addLeaf(results, p, columns, n)
			continue
		}
		clear(states)
		stride := uint16(1)
		for j := range p.splits {
			s := &p.splits[j]
			for row, code := range columns[s.column*n:][:n] {
				states[row] += stride * uint16(s.states[code])
			}
			stride *= uint16(s.count)
		}
		for _, to := range p.sums {
			addWeighted(sums[to.at*n:][:n], p.values[to.table*p.states:][:p.states], states, float32(to.weight))
		}
	}
	for i, v := range sums {
		results[i] += float64(v)
	}
}

// addWeighted adds the values of the rows' states times a weight. It is a separate function so that its loop stays in registers.
//
//go:noinline
func addWeighted(sums, values []float32, states []uint16, w float32) {
	sums = sums[:len(states)]
	for row, state := range states {
		sums[row] += w * values[state]
	}
}

// addLeaf is Add for a part of one leaf without tables.
func (c *Contributions) addLeaf(results []float64, p *part, columns []uint8, n int) {
	factors := p.leaves[0].factors
	effects, passes := make([]float64, len(factors)), make([]float64, len(factors))
	for row := range n {
		for j := range factors {
			passes[j] = 0
			if f := &factors[j]; f.passes[columns[f.column*n+row]] {
				passes[j] = 1
			}
		}
		c.effects(effects, passes, factors)
		for _, to := range p.sums {
			results[to.at*n+row] += to.weight * effects[to.table]
		}
	}
}

// quadrature is points between 0 and 1 with their weights.
type quadrature struct{ at, weights []float64 }

// effects writes what each factor adds to the product of all, as Shapley value: a factor is 1 or 0 with the column of the row, as passes
// say, and its share without.
func (c *Contributions) effects(effects, passes []float64, factors []factor) {
	q := &c.quadratures[(len(factors)+1)/2]
	clear(effects)
	var after [MaxLeaves]float64
	for point, t := range q.at {
		factor := func(i int) float64 { return factors[i].share*(1-t) + passes[i]*t }
		product := 1.0
		for i := len(factors) - 1; i >= 0; i-- {
			after[i] = product
			product *= factor(i)
		}
		product = q.weights[point]
		for i := range factors {
			effects[i] += (passes[i] - factors[i].share) * product * after[i]
			product *= factor(i)
		}
	}
}
