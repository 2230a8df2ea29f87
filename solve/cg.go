package solve

// MethodCG is conjugate gradients: the way of a quadratic loss where there is no Gram matrix of all rows.
const MethodCG = "cg"

func cgMethod() method {
	return method{
		name:      MethodCG,
		doc:       "conjugate gradients, with the link `identity`",
		quadratic: true,
	}
}
