// Package onnx writes computations of float32 matrices as ONNX models, which many runtimes run:
//
//	inputs, constants ──operators──▶ outputs ──Graph.WriteTo──▶ file
//
// It knows nothing of stages or links: they say which operators they are. The operators are those of the standard,
// https://onnx.ai/onnx/operators, in the version [OperatorSet].
package onnx
