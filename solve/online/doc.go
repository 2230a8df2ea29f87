// Package online fits the updates of a chain on sparse rows: statistics of new rows become weights. An update fits the new rows, and
// approximates the loss of past rows by a quadratic around the initial weights, with their accumulated diagonal curvature:
//
//	minimise over W   Σ w ℓ(offset + xW, y) + ½ Σ D (W − W₀)²,   then   D ← D + Σ w x² h
//
// where h is the second derivative of the loss in each score at the final W of the update (a diagonal Laplace
// approximation; its relatives are Graepel et al., Web-scale Bayesian click-through rate prediction, ICML 2010, and
// McMahan et al., Ad click prediction, KDD 2013). A stage of naive Bayes keeps counts. Both are sums over rows, kept
// per increment, so those of an increment that leaves the window are subtracted. The time and memory of an update
// depend on the columns that occur in it.
package online
