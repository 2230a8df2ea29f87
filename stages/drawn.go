package stages

import "github.com/stagewise/stagewise/schemas"

// Drawn reports whether features differ between stages, because they are drawn or learnt from draws: averaging models
// of such features pays.
func Drawn(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && (k.draw != nil || k.learn != nil || k.grown) && !(k.sparse && f.Size == 0)
}
