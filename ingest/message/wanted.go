package message

// Wanted are the columns to read in a value, as a tree of the names on their paths.
type Wanted struct {
	Columns int // number of columns
	Names   []string
	Rows    bool // the rows are at a path in the value
	Root    *Node
}

// Node is a node of the tree, with columns at or below it.
type Node struct {
	Column int // -1: none
	Below  map[string]*Node
	Rows   *Node // if not nil, the rows are here, and this is the tree of each row
}

// Want returns the columns that the options read. With rows at a path, a column may be in the rows, or in the enclosing
// value.
func Want(o Options) *Wanted {
	names := Columns(o.Options)
	w := &Wanted{Columns: len(names), Names: names, Root: treeOf(names)}
	if o.Rows != "" {
		w.Rows = true
		at := w.Root
		for _, name := range Path(o.Rows) {
			at = at.step(name)
		}
		at.Rows = treeOf(names)
	}
	return w
}

// treeOf returns the tree of columns.
func treeOf(names []string) *Node {
	root := &Node{Column: -1}
	for i, name := range names {
		at := root
		for _, step := range Path(name) {
			at = at.step(step)
		}
		at.Column = i
	}
	return root
}

// step returns a child of a node, which it adds if necessary.
func (n *Node) step(name string) *Node {
	if n.Below == nil {
		n.Below = map[string]*Node{}
	}
	next := n.Below[name]
	if next == nil {
		next = &Node{Column: -1}
		n.Below[name] = next
	}
	return next
}
