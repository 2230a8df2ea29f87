package onnx

// Computations of each row of a matrix that the standard has no operator for.

// Zeros adds a matrix of zeros with as many rows as x and that many columns.
func (g *Graph) Zeros(x Value, columns int) Value {
	n := g.Node("Gather", g.Node("Shape", x), g.Integers(0))
	return g.Node("Expand", g.Number(0), g.Along(0, "Concat", n, g.Integers(int64(columns))))
}

// Simplex adds the nearest point of the probability simplex to each row of x, which has that many columns. It is what
// kernel.SimplexRows computes: max(x−θ, 0), where θ is (μ₁+…+μ_ρ−1)/ρ for the ρ largest values μ of the row. As a
// function of ρ that rises up to the ρ sought and falls behind it, so θ is its maximum.
func (g *Graph) Simplex(x Value, columns int) Value {
	counts := make([]float32, columns)
	for i := range counts {
		counts[i] = float32(i + 1)
	}
	descending := g.add("TopK", []Value{x, g.Integers(int64(columns))}, g.outputsOf("TopK", 2))
	sums := g.Node("CumSum", descending, g.Integer(1))
	thetas := g.Node("Div", g.Node("Sub", sums, g.Number(1)), g.Row(counts))
	return g.Node("Relu", g.Node("Sub", x, g.Node("ReduceMax", thetas, g.Integers(1))))
}

// Unit adds each row of x divided by its Euclidean length. Rows of zeros stay as they are.
func (g *Graph) Unit(x Value) Value {
	x = g.quotient(x, g.Node("ReduceMax", g.Node("Abs", x), g.Integers(1))) // so no square is too large or too small for a float32
	return g.quotient(x, g.Node("ReduceL2", x, g.Integers(1)))
}

// quotient divides each row of x by its number in lengths, unless that is 0.
func (g *Graph) quotient(x, lengths Value) Value {
	return g.Node("Div", x, g.Node("Where", g.Node("Equal", lengths, g.Number(0)), g.Number(1), lengths))
}
