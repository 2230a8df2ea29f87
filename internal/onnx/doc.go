// Package onnx writes computations of float32 matrices as ONNX models, which many runtimes run:
//
//	inputs, constants ──operators──▶ outputs ──Graph.WriteTo──▶ file
//
// It does not depend on stages or links: they name their operators. The operators are those of the standard,
// https://onnx.ai/onnx/operators, in the version [OperatorSet]; sums of trees
// are of those for machine learning, https://onnx.ai/onnx/operators/index_ai_onnx_ml.html, in the version [LearningOperatorSet].
package onnx
