// Package serve serves predictions of models over HTTP:
//
//	POST /predict ──body──▶ rows ──model──▶ version, labels and probabilities
//
// Rows are sent as JSON or as an Arrow stream, and the answer uses the same format. Each answer is from one version.
// Clients are untrusted: bodies, rows, connections and time are limited, and error responses include the reason.
package serve
