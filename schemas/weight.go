package schemas

import "errors"

// Weight is what the scores of some features are multiplied by: a number ≥ 0 or WeightAuto, and written like a ridge.
type Weight = Ridge

// WeightAuto stands for the weight that the solver chooses by how well holdout rows are predicted.
const WeightAuto = RidgeAuto

var errWeight = errors.New("weight: expected a number ≥ 0")
