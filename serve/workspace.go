package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// workspace is reusable memory for the predictions of a tile of rows. There are as many as cores.
type workspace struct {
	probabilities []float32 // n × k
	numbers       []float64 // n × k: in regression, in place of probabilities
	contributions []string  // n, as JSON: if they are asked for
	current       predictedRow
}

// predictedRow is the prediction of a row.
type predictedRow struct {
	numbers       []float64 // in regression, in place of the others
	probabilities []float32
	given         []int32 // classes that the model decides for, in order
	top           []int32 // most probable classes, if asked for
	contributions string  // as JSON, if asked for
}

// row returns the prediction of row i, with a number of most probable classes. It is valid until the next call.
func (p *workspace) row(v *version, i, top int) *predictedRow {
	k, r := len(v.Labels()), &p.current
	if r.contributions = ""; p.contributions != nil {
		r.contributions = p.contributions[i]
	}
	if v.predictsNumbers() {
		r.numbers, r.probabilities = p.numbers[i*k:(i+1)*k], nil
		return r
	}
	r.numbers, r.probabilities = nil, p.probabilities[i*k:(i+1)*k]
	r.given = v.given(r.given, r.probabilities)
	if top > 0 {
		r.top = mostProbable(r.top, r.probabilities, top)
	}
	return r
}

// contributed is what columns add to a score, with its label encoded as in answers.
type contributed struct {
	Label json.RawMessage `json:"label"`
	model.Contributions
}

// keptValues is the maximum number of values that a workspace keeps between requests.
const keptValues = workspaceBytes / 4

// predict predicts rows, with so many contributions to each score.
func (p *workspace) predict(v *version, rows *examples.Rows, contributions int) error {
	if p.contributions = nil; contributions > 0 {
		var failed error
		scores := make([]contributed, len(v.quoted))
		err := v.Contributions(rows, contributions, func(_ int, of []model.Contributions) {
			for out, score := range of {
				scores[out] = contributed{v.quoted[out], score}
			}
			text, e := json.Marshal(scores)
			failed = cmp.Or(failed, e)
			p.contributions = append(p.contributions, string(text))
		})
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
	}
	values := rows.Rows * len(v.Labels())
	if v.predictsNumbers() {
		p.numbers = resized(p.numbers, values)
		v.Numbers(p.numbers, rows)
		return nil
	}
	p.probabilities = resized(p.probabilities, values)
	v.Probabilities(p.probabilities, rows)
	return nil
}

// resized returns a slice of n values that reuses memory if possible.
func resized[T any](values []T, n int) []T { return slices.Grow(values[:0], n)[:n] }

// enter waits for a core, and returns a workspace. The caller returns it with leave.
func (s *Server) enter(ctx context.Context) (*workspace, error) {
	timer := time.NewTimer(s.options.Timeout)
	defer timer.Stop()
	select {
	case work := <-s.cores:
		return work, nil
	case <-timer.C:
		return nil, refuse(http.StatusServiceUnavailable, "no core was free for %v: send it again", s.options.Timeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// leave returns a workspace.
func (s *Server) leave(work *workspace) {
	if values := cap(work.probabilities) + 2*cap(work.numbers); values > keptValues {
		work = &workspace{}
	}
	s.cores <- work
}

// predictsNumbers reports whether answers have predicted targets in place of labels and probabilities.
func (v *version) predictsNumbers() bool { return v.Task() == examples.Numbers }

// givesSeveral reports whether the model is multi-label.
func (v *version) givesSeveral() bool { return v.Task() == examples.SeveralLabels }

// given returns the predicted classes of a row, in order: the one that the model decides for, or in a multi-label task those
// whose probability is above the threshold. It uses the memory of classes.
func (v *version) given(classes []int32, probabilities []float32) []int32 {
	classes = classes[:0]
	if !v.givesSeveral() {
		return append(classes, v.Decide(probabilities))
	}
	for class, p := range probabilities {
		if float64(p) >= v.Threshold() {
			classes = append(classes, int32(class))
		}
	}
	return classes
}

// wholeNumbers returns the labels as integers if all of them are, otherwise nil.
func wholeNumbers(m *model.Model) []int64 {
	if m.LabelType() != examples.WholeLabels {
		return nil
	}
	return examples.WholeNumbers(m.Labels())
}

// described is a manifest with labels encoded as in answers.
type described struct {
	*schemas.Manifest
	Labels []json.RawMessage `json:"labels"`
}

func manifestOf(m *model.Model) described {
	return described{m.Manifest, m.LabelType().Values(m.Manifest.Labels)}
}
