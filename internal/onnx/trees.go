package onnx

// Trees are trees whose leaves have weights, for [Graph.Trees]. The nodes of a tree are numbered in the order in which they are added. The
// first is its root. The zero value has none.
type Trees struct {
	trees, ids, features, trues, falses, missing []int64 // of each node
	values                                       []float32
	kinds                                        []string
	leaves                                       []int64 // places of leaves among nodes
	number                                       int64   // of the last tree
	begin                                        int     // the place of its first node
	weights                                      []float32
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
	id := int64(len(t.trees) - t.begin)
	t.ids = append(t.ids, id)
	t.trees, t.kinds = append(t.trees, t.number), append(t.kinds, kind)
	t.features, t.values, t.missing = append(t.features, feature), append(t.values, threshold), append(t.missing, missing)
	t.trues, t.falses = append(t.trues, 0), append(t.falses, 0)
	return id
}

// Lead says to which nodes of the last tree one of its nodes leads: if the feature is at most the threshold, and else.
func (t *Trees) Lead(node, atMost, above int64) {
	t.trues[t.begin+int(node)], t.falses[t.begin+int(node)] = atMost, above
}

// Trees adds to each row of x the weights of the leaves in which it ends, summed over the trees: a matrix of that many columns. There must
// be a tree.
func (g *Graph) Trees(x Value, t *Trees, columns int) Value {
	var trees, nodes, targets []int64 // of each weight
	for _, leaf := range t.leaves {
		for c := range columns {
			trees, nodes, targets = append(trees, t.trees[leaf]), append(nodes, t.ids[leaf]), append(targets, int64(c))
		}
	}
	g.learning = true
	const operator = "TreeEnsembleRegressor"
	return g.add(operator, []Value{x}, g.outputsOf(operator, 1),
		attribute("aggregate_function", "SUM"), attribute("post_transform", "NONE"), attribute("n_targets", columns),
		attribute("nodes_treeids", t.trees), attribute("nodes_nodeids", t.ids),
		attribute("nodes_featureids", t.features), attribute("nodes_values", t.values), attribute("nodes_modes", t.kinds),
		attribute("nodes_truenodeids", t.trues), attribute("nodes_falsenodeids", t.falses),
		attribute("nodes_missing_value_tracks_true", t.missing),
		attribute("target_treeids", trees), attribute("target_nodeids", nodes), attribute("target_ids", targets),
		attribute("target_weights", t.weights), field{nodeDomain, learning})
}
