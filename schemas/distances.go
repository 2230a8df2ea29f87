package schemas

// Distances is how far predictions are from the numbers that they are of.
type Distances struct {
	RMSE float64 `json:"rmse"` // root of the mean squared error
	MAE  float64 `json:"mae"`  // mean absolute error
	R2   float64 `json:"r2"`   // 1 − mean squared error / variance of the split's rows
}
