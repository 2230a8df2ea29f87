package onnx

// Tree is a tree whose leaves have weights, for [Graph.Trees]. The first node is its root.
type Tree []TreeNode

// TreeNode is a leaf, if it has weights, one for each column of the sum. Otherwise a row goes to one node of the tree if its feature is at
// most the threshold, and else to the other. A missing value (NaN) goes as if it were, or not.
type TreeNode struct {
	Weights       []float32
	Feature       int
	Threshold     float32
	Missing       bool
	AtMost, Above int // indices of nodes
}

// Trees adds to each row of x the weights of the leaves in which it ends, summed over the trees: a matrix of that many columns. There must
// be a tree.
func (g *Graph) Trees(x Value, trees []Tree, columns int) Value {
	var of, ids, features, atMost, above, missing []int64 // of each node
	var thresholds, weights []float32
	var modes []string
	var ofWeights, leaves, targets []int64 // of each weight: tree, node and column
	for t, tree := range trees {
		for id, node := range tree {
			mode, way := "BRANCH_LEQ", int64(0)
			if node.Missing {
				way = 1
			}
			if node.Weights != nil {
				mode, weights = "LEAF", append(weights, node.Weights...)
				for c := range columns {
					ofWeights, leaves, targets = append(ofWeights, int64(t)), append(leaves, int64(id)), append(targets, int64(c))
				}
			}
			of, ids, modes = append(of, int64(t)), append(ids, int64(id)), append(modes, mode)
			features, thresholds, missing = append(features, int64(node.Feature)), append(thresholds, node.Threshold), append(missing, way)
			atMost, above = append(atMost, int64(node.AtMost)), append(above, int64(node.Above))
		}
	}
	g.learning = true
	const operator = "TreeEnsembleRegressor"
	return g.add(operator, []Value{x}, g.outputsOf(operator, 1),
		attribute("aggregate_function", "SUM"), attribute("post_transform", "NONE"), attribute("n_targets", columns),
		attribute("nodes_treeids", of), attribute("nodes_nodeids", ids),
		attribute("nodes_featureids", features), attribute("nodes_values", thresholds), attribute("nodes_modes", modes),
		attribute("nodes_truenodeids", atMost), attribute("nodes_falsenodeids", above),
		attribute("nodes_missing_value_tracks_true", missing),
		attribute("target_treeids", ofWeights), attribute("target_nodeids", leaves), attribute("target_ids", targets),
		attribute("target_weights", weights), field{nodeDomain, learning})
}
