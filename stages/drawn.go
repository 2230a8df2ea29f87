package stages

import "github.com/stagewise/stagewise/schemas"

// Drawn reports whether features are others in every stage, because they are drawn or learnt of what is drawn: models of such features are
// worth averaging.
func Drawn(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && (k.draw != nil || k.learn != nil || k.grown) && !(k.sparse && f.Size == 0)
}
