// Package serve turns models into answers over HTTP:
//
//	POST /predict ──body──▶ rows ──model──▶ version, labels and probabilities
//
// Rows come as JSON or as a stream of Arrow, and the answer uses the same format. Each answer is from one version.
// Clients are untrusted: bodies, rows, connections and time are limited, and a refusal
// has a reason.
package serve
