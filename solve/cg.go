package solve

// MethodCG is conjugate gradients: the method for a quadratic loss without a Gram matrix of all rows.
const MethodCG = "cg"

func cgMethod() method {
	return method{
		name:      MethodCG,
		doc:       "conjugate gradients, with the link `identity`",
		quadratic: true,
	}
}
