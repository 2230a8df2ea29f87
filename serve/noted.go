package serve

import (
	"context"
	"net/http"

	"github.com/stagewise/stagewise/serve/answers"
)

// WriteAnswers makes the server write its answers to the topic in its options. It must be called before Serve, which ends
// it.
func (s *Server) WriteAnswers(ctx context.Context, log answers.Log) (err error) {
	s.answers, err = answers.Open(ctx, s.options.Answers, log, s.register, func(text string) { s.notice(text) })
	return err
}

// closeAnswers writes the buffered answers after the last response.
func (s *Server) closeAnswers(ctx context.Context) {
	if s.answers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	if err := s.answers.Close(ctx); err != nil {
		s.notice(err.Error())
	}
}

// record returns the record of the answers to a request, and sets the id in the response; nil if answers are not written,
// or the request is not sampled.
func (s *Server) record(w http.ResponseWriter, r *http.Request) (*answers.Request, error) {
	if s.answers == nil {
		return nil, nil
	}
	id := r.Header.Get(answers.Header)
	if id == "" {
		id = answers.DrawID()
	}
	if !answers.ValidID(id) {
		return nil, refuse(http.StatusBadRequest, "%s %.40q: expected up to 200 printable ASCII characters without spaces", answers.Header, id)
	}
	w.Header().Set(answers.Header, id)
	return s.answers.Begin(id), nil
}

// note records the predictions of a tile.
func (p *prediction) note(n int) error {
	if p.record == nil {
		return nil
	}
	k := len(p.quoted)
	for i := range n {
		of := answers.Predicted{Classes: p.quoted, Several: p.givesSeveral()}
		if p.predictsNumbers() {
			of.Numbers = p.work.predicted.numbers[i*k : (i+1)*k]
		} else {
			of.Values = p.work.predicted.probabilities[i*k : (i+1)*k]
			p.order = p.given(p.order, of.Values)
			for _, class := range p.order {
				of.Labels = append(of.Labels, p.quoted[class])
			}
			p.order = mostProbable(p.order, of.Values, answers.MostProbable(p.asks.top))
			of.Top = p.order
		}
		p.record.Add(func(dst []byte) []byte { return p.rows.features(dst, i) }, of)
		if int64(p.record.Bytes()) > p.memory.maxAnswer() { // also of columns that the model does not have
			return refuse(http.StatusRequestEntityTooLarge, "the features of the rows have more than %d bytes as JSON, which serve.answers.topic "+
				"needs: send fewer rows at a time", p.memory.maxAnswer())
		}
	}
	return nil
}
