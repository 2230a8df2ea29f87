package serve

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// sendWhole sends a completed answer.
func (p *prediction) sendWhole(ctx context.Context, w http.ResponseWriter) error {
	pieces, err := p.encoder.whole(p.work.rows)
	if err != nil {
		return err
	}
	length := 0
	for _, piece := range pieces {
		length += len(piece)
	}
	p.record.Send(p.count)
	if p.metrics.rows.Add(float64(p.count)); length <= firstRead { // fits into the buffers of the connection
		p.head(w, length)
		for _, piece := range pieces {
			_, _ = w.Write(piece) // the client may have disconnected
		}
		p.done()
		return nil
	}
	all := slices.Concat(pieces...) // a copy, so that the workspace does not wait for a slow client
	p.done()
	if !p.reserve(ctx, int64(length)) {
		return p.full()
	}
	defer p.memory.Release(int64(length))
	p.head(w, length)
	out := p.senders.begin(w)
	defer p.senders.end(out)
	_ = out.write(all) // as above
	return nil
}

// done releases the workspace.
func (p *prediction) done() {
	work := p.work
	p.work = nil
	p.leave(work)
}

// sendPieces sends the predicted rows, and then the rest in chunks, each predicted after the previous one was sent. A core
// is only used while a chunk is computed.
func (p *prediction) sendPieces(ctx context.Context, w http.ResponseWriter, rest int) error {
	if p.count+rest > p.Server.options.MaxRows {
		return tooMany(p.Server.options.MaxRows)
	}
	rows := p.count + rest
	piece := append(p.encoder.opening(), p.work.rows...)
	p.done()
	held := 2*int64(cap(piece)) + keptAnswer + newGiven(p.version).bytes(rows)
	if !p.reserve(ctx, held) {
		return p.full()
	}
	defer p.memory.Release(held)
	p.head(w, -1)
	out := p.senders.begin(w)
	defer p.senders.end(out)
	err := out.write(piece)
	for err == nil {
		p.record.Send(rows)
		if piece, err = p.piece(ctx, piece[:0]); err != nil || len(piece) == 0 {
			break
		}
		err = out.write(piece)
	}
	if err == nil {
		err = p.encoder.closing(out.write)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the response has started: the client must notice that it is incomplete
	}
	p.record.Send(rows)
	p.metrics.rows.Add(float64(p.count))
	return nil
}

// piece computes the next chunk of an answer; an empty one after the last row.
func (p *prediction) piece(ctx context.Context, dst []byte) ([]byte, error) {
	select {
	case p.work = <-p.cores: // without a timeout, since the response has started
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.work.rows = p.work.rows[:0]
	for len(p.work.rows) == 0 {
		n, err := p.tile(ctx)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
	}
	dst = append(dst, p.work.rows...)
	p.done()
	return dst, nil
}

// senders are the answers being sent. If memory is short, those with the slowest clients are aborted.
type senders struct {
	mutex sync.Mutex
	all   map[*sender]bool
}

// sender sends an answer.
type sender struct {
	of      *senders
	to      http.ResponseWriter
	control *http.ResponseController
	since   time.Time // start of the current wait for the client; zero: none
}

func (s *senders) begin(w http.ResponseWriter) *sender {
	out := &sender{of: s, to: w, control: http.NewResponseController(w)}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all[out] = true
	return out
}

func (s *senders) end(out *sender) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.all, out)
}

// write writes a chunk.
func (o *sender) write(piece []byte) error {
	o.wait(time.Now())
	defer o.wait(time.Time{})
	_, err := o.to.Write(piece)
	return err
}

func (o *sender) wait(since time.Time) {
	o.of.mutex.Lock()
	defer o.of.mutex.Unlock()
	o.since = since
}

// readerPatience is the time for which a client may read nothing before its answer is aborted if memory is needed.
const readerPatience = time.Second

// cut aborts the answer whose client has read nothing for the longest time, if that exceeds readerPatience.
func (s *senders) cut() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var slowest *sender
	for out := range s.all {
		if !out.since.IsZero() && time.Since(out.since) >= readerPatience && (slowest == nil || out.since.Before(slowest.since)) {
			slowest = out
		}
	}
	if slowest == nil {
		return
	}
	delete(s.all, slowest)
	_ = slowest.control.SetWriteDeadline(time.Now()) // otherwise it ends with its timeout
}

// memoryPatience is the maximum time that a request waits for memory: the time for an aborted answer to end.
const memoryPatience = 2 * readerPatience

// reserve reserves memory for requests and answers. It returns false if there is none for a while.
func (s *Server) reserve(ctx context.Context, bytes int64) bool {
	if s.memory.TryAcquire(bytes) {
		return true
	}
	if s.collect(); s.memory.TryAcquire(bytes) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, memoryPatience)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		ticker := time.NewTicker(readerPatience / 10)
		defer ticker.Stop()
		for {
			s.senders.cut()
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	return s.memory.Acquire(ctx, bytes) == nil
}
