package chain

import (
	"slices"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// Leaving decides which increments leave a window.
type Leaving struct {
	Retrain topics.RetrainOptions
	Most    int             // maximum number of terms on the state topic; see [State.MostTerms]
	Bytes   int64           // maximum size of the window; see schemas.WindowBytes
	Staying []coverage.Span // bounds that retention keeps during the longest run; nil: unlimited
}

// Leave adds to an update the increments that leave the window when found rows are added, and returns the remaining ones.
func (l Leaving) Leave(chain *schemas.Chain, window *schemas.Window, found int64) (stays []schemas.WindowIncrement) {
	o, rows, u := l.Retrain.Window, window.Rows()+found, chain.Update
	newest := chain.Until // of the window: the found rows may all be late
	for i := range window.Increments {
		newest = max(newest, window.Increments[i].Until)
	}
	list := *window // remaining window
	left := 0       // number of increments with rows
	for i := range window.Increments {
		if c := &window.Increments[i].Increment; c.Rows() > 0 {
			left += c.Size()
		}
	}
	for i := range window.Increments {
		c := &window.Increments[i]
		has := c.Increment.Rows()
		switch first := len(stays) == 0; {
		case has == 0: // it replaces no other
		case first && o.Increments > 0 && left+1 > o.Increments:
		case first && o.Rows > 0 && rows-has >= o.Rows:
		case first && l.Retrain.LeavesByDecay(&list, l.Most, l.Bytes):
		case o.Time > 0 && c.Until < newest-o.Time.Milliseconds():
		case expires(&c.Increment, l.Staying): // also a later one, of a source that was sealed late
		default:
			stays = append(stays, *c)
			continue
		}
		if rows -= has; has > 0 {
			left -= c.Increment.Size()
		}
		if len(stays) == 0 {
			list.Increments = list.Increments[1:]
		}
		u.Leave = append(u.Leave, decayed(c, u.Decay))
	}
	return stays
}

// expires reports whether retention may delete rows of an increment during the longest run. staying are the bounds that it
// keeps.
func expires(c *coverage.Increment, staying []coverage.Span) bool {
	return slices.ContainsFunc(c.Covered, func(covered coverage.Coverage) bool {
		span := covered.Spans[0]
		return span.Partition < len(staying) && span.From < staying[span.Partition].From
	})
}

// AnyFitted reports whether weights were fitted to rows of any increment.
func AnyFitted(increments []schemas.WindowIncrement) bool {
	return slices.ContainsFunc(increments, func(c schemas.WindowIncrement) bool { return c.Fitted > 0 })
}

// Refresh adds to an update the increments to revisit besides the found rows.
func Refresh(u *schemas.Update, window *schemas.Window, o topics.RetrainOptions, found int64) {
	if window.Sparse { // the past is kept as a quadratic, so nothing is revisited
		return
	}
	for _, c := range window.Longest(o.Refresh, max(o.Rows, found)) {
		u.Refresh = append(u.Refresh, decayed(&c, o.Decay))
	}
}

const (
	// localRows is the maximum number of rows of an update that its solver visits, and localProducts that of the products in its Gram
	// matrices: a third of a second on a core. To send and to add the matrices of 1,024 columns takes as long as to sum 1,000 rows.
	localRows     = 1 << 15
	localProducts = 1 << 33
)

// IsLocal reports whether an update that finds that many rows is too small to distribute.
func IsLocal(u *schemas.Update, window *schemas.Window, found int64) bool {
	rows, summed := found, found
	for i := range u.Leave {
		summed += u.Leave[i].Rows()
	}
	for i := range u.Refresh {
		if rows += u.Refresh[i].Rows(); u.Restart {
			summed += u.Refresh[i].Rows()
		}
	}
	matrices := max(window.GramsSize/8, 1) // values of the Gram matrices of all stages
	return max(rows, summed) <= localRows && summed <= localProducts/matrices
}

// decayed returns an increment with its weight after one more update.
func decayed(c *schemas.WindowIncrement, decay float64) coverage.Increment {
	increment := c.Increment
	increment.Weight *= decay
	return increment
}

// restartPasses is the minimum number of passes of an update with empty initial sums, like the first version of a chain.
const restartPasses = 3

// Restart returns the update after a change of the stream: the increments before the change leave the window, and all
// others are visited.
func Restart(window *schemas.Window, passes int) *schemas.Update {
	u := &schemas.Update{Passes: max(passes, restartPasses), Decay: 1, Restart: true}
	for _, c := range window.Increments {
		if c.Increment.Number < window.Changed {
			u.Leave = append(u.Leave, c.Increment)
			continue
		}
		c.Increment.Weight = 1
		u.Refresh = append(u.Refresh, c.Increment)
	}
	return u
}

// DropChanged removes from a window the increments before a change of the stream.
func DropChanged(window *schemas.Window) {
	window.Increments = slices.DeleteFunc(window.Increments,
		func(c schemas.WindowIncrement) bool { return c.Increment.Number < window.Changed })
}
