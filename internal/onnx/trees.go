package onnx

// Trees are trees whose leaves have weights, for [Graph.Trees]. The nodes of a tree are numbered in the order in which they are added. The
// first is its root. The zero value has none.
type Trees struct {
	trees, features, trues, falses, missing []int64 // of each node
	values                                  []float32
	kinds                                   []string
	leaves                                  []int64 // places of leaves among nodes
	number                                  int64   // of the last tree
	begin                                   int     // the place of its first node
	weights                                 []float32
}

// Begin begins a tree.
func (t *Trees) Begin() {
	if len(t.trees) > 0 {
		t.number++
	}
	t.begin = len(t.trees)
}

// Node adds a node, and returns its number: a row goes one way if its feature is at most the threshold, and else the other. A missing
// value (NaN) goes as if it were, or not. [Trees.Lead] says where the ways lead.
func (t *Trees) Node(feature int, threshold float32, missing bool) (node int64) {
	way := int64(0)
	if missing {
		way = 1
	}
	return t.add("BRANCH_LEQ", int64(feature), threshold, way)
}

// Leaf adds a leaf with weights, one for each column of the sum, and returns its number.
func (t *Trees) Leaf(weights []float32) (node int64) {
	t.leaves = append(t.leaves, int64(len(t.trees)))
	t.weights = append(t.weights, weights...)
	return t.add("LEAF", 0, 0, 0)
}

func (t *Trees) add(kind string, feature int64, threshold float32, missing int64) int64 {
	t.trees, t.kinds = append(t.trees, t.number), append(t.kinds, kind)
	t.features, t.values, t.missing = append(t.features, feature), append(t.values, threshold), append(t.missing, missing)
	t.trues, t.falses = append(t.trues, 0), append(t.falses, 0)
	return int64(len(t.trees) - 1 - t.begin)
}

// Lead says to which nodes of the last tree one of its nodes leads: if the feature is at most the threshold, and else.
func (t *Trees) Lead(node, atMost, above int64) {
	t.trues[t.begin+int(node)], t.falses[t.begin+int(node)] = atMost, above
}

// Trees adds to each row of x the weights of the leaves in which it ends, summed over the trees: a matrix of that many columns. There must
// be a tree.
func (g *Graph) Trees(x Value, t *Trees, columns int) Value {
	ids := make([]int64, len(t.trees)) // of nodes in their trees
	for i := range ids {
		if i > 0 && t.trees[i] == t.trees[i-1] {
			ids[i] = ids[i-1] + 1
		}
	}
	var trees, nodes, targets []int64 // of each weight
	for _, leaf := range t.leaves {
		for c := range columns {
			trees, nodes, targets = append(trees, t.trees[leaf]), append(nodes, ids[leaf]), append(targets, int64(c))
		}
	}
	return g.add(node{operator: "TreeEnsembleRegressor", domain: learning, inputs: []Value{x}, attributes: []attribute{
		{"aggregate_function", "SUM"}, {"post_transform", "NONE"}, {"n_targets", columns},
		{"nodes_treeids", t.trees}, {"nodes_nodeids", ids},
		{"nodes_featureids", t.features}, {"nodes_values", t.values}, {"nodes_modes", t.kinds},
		{"nodes_truenodeids", t.trues}, {"nodes_falsenodeids", t.falses},
		{"nodes_missing_value_tracks_true", t.missing},
		{"target_treeids", trees}, {"target_nodeids", nodes}, {"target_ids", targets},
		{"target_weights", t.weights},
	}}, 1)[0]
}
