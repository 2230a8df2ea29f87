package solve

import "github.com/stagewise/stagewise/schemas"

// Keys documents the keys under `stages.*` that say how a stage is fitted.
func Keys() []schemas.Key {
	return []schemas.Key{
		{Name: "link", Meaning: "`identity`, `softmax` or `calibrated`"},
		{Name: "passes", Meaning: "maximum number of passes. A pass gives a loss and a gradient"},
		{Name: "ridge", Meaning: "λ = ridge · trace(S)/p"},
		{Name: "method", Meaning: "`paper`, `accelerated` (with Nesterov's momentum), `lbfgs` (from the inverse Gram matrix), or `auto`: `lbfgs` until a pass lowers J by less than 4 %. The identity link ignores it: that link solves directly, or by conjugate gradients where the Gram matrix is of a sample"},
		{Name: "gram_rows", Meaning: "training rows that the Gram matrix is made of, whole messages spread over the topic: `all`, a number, or `auto`: 10,000 or 5 a column, whichever is more, where that is faster. The Gram matrix is a preconditioner: the passes find the same minimum, except for `calibrated`, whose steps are made once"},
		{Name: "scores", Meaning: "add the previous predictions as k more features"},
		{Name: "stop.split", Meaning: "end the stage when the loss of this split has stopped falling: `holdout` or `test`. Without any key under `stop` the stage makes all its passes"},
		{Name: "stop.patience", Meaning: "number of passes without a fall that end the stage"},
	}
}
