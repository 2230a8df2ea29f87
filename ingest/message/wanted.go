package message

// Wanted are the columns that are read of a value, as a tree of the names on their paths.
type Wanted struct {
	Columns int // how many there are
	Names   []string
	Rows    bool // the rows are at a path of the value
	Root    *Node
}

// Node is a place in a value that columns are at or below.
type Node struct {
	Column int // -1: none
	Below  map[string]*Node
	Rows   *Node // not nil: the rows are here, and this is wanted of each
}

// Want returns the columns that the options read. Those of rows at a path may be of the rows, or of the value that has them.
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

// step returns the node below another, which it adds if need be.
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
