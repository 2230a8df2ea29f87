// Package serve turns models into answers over HTTP:
//
//	POST /predict ──body──▶ rows ──model──▶ version, labels and probabilities
//
// Rows come as JSON or as a stream of Arrow, and the answer comes in the same way. Each answer is of one version. Whoever asks is not trusted:
// bodies, rows, connections and time are limited, and what can't be answered is refused with a reason.
package serve
