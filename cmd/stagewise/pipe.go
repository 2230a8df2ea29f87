package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/serve"
)

// pipe answers the process that started this one. Requests are on the standard input, as HTTP/1.1 without chunks. Their responses are on
// the standard output, in the same order. It ends with the standard input.
type pipe struct {
	versions serve.Versions
	waits    *waits
	server   *serve.Server
	serve    func(versions serve.Versions) (*serve.Server, error) // returns a server of other versions
}

// answerPipe answers requests on the standard input of a command. The limits of a server do not apply to its only client.
func answerPipe(cmd *cobra.Command, o serve.Options, versions serve.Versions, waits *waits, pipeline string) error {
	o.MaxBody, o.MaxRows, o.Memory, o.Timeout, o.Answers.Topic = 1<<31, math.MaxInt32, 1<<34, 24*time.Hour, ""
	p := &pipe{versions: versions, waits: waits, serve: func(versions serve.Versions) (*serve.Server, error) {
		return serve.New(o, versions, prometheus.NewRegistry(), pipeline)
	}}
	var err error
	if p.server, err = p.serve(versions); err != nil {
		return err
	}
	p.server.Notify(func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) })
	return p.answer(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
}

// answer answers requests until the input or ctx ends.
func (p *pipe) answer(ctx context.Context, in io.Reader, out io.Writer) error {
	ended := make(chan error, 1)
	go func() { ended <- p.answerAll(ctx, bufio.NewReaderSize(in, 64<<10), out) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done(): // the goroutine waits for input until the process ends
		return nil
	}
}

func (p *pipe) answerAll(ctx context.Context, in *bufio.Reader, out io.Writer) error {
	mux := http.NewServeMux()
	mux.Handle("/", p.server)
	mux.HandleFunc("GET /status", p.status)
	mux.HandleFunc("GET /version", p.version)
	mux.HandleFunc("GET /file", p.file)
	mux.HandleFunc("POST /stages/{n}/predict", p.staged)
	for {
		r, err := http.ReadRequest(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a request from the standard input: %w", err)
		}
		w := &response{header: http.Header{}, status: http.StatusOK}
		mux.ServeHTTP(w, r.WithContext(ctx))
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return fmt.Errorf("read a request from the standard input: %w", err)
		}
		if err := w.write(out); err != nil {
			return fmt.Errorf("write a response to the standard output: %w", err)
		}
	}
}

// status is what a follower knows of its version.
func (p *pipe) status(w http.ResponseWriter, _ *http.Request) {
	s := p.versions.Status()
	status := map[string]any{
		"version": s.Version, "run": s.Run, "kind": s.Kind, "parent": s.Parent, "written": nil, "age": s.Age.Seconds(), "silence": nil,
		"no_pipeline": errors.As(s.Err, new(*protocol.NoPipelineError)),
	}
	if s.Written.Unix() > 0 {
		status["written"] = float64(s.Written.UnixMilli()) / 1e3
	}
	if s.Silence < math.MaxInt64 { // the brokers said once that this is the version to have
		status["silence"] = s.Silence.Seconds()
	}
	if err := cmp.Or(s.Err, p.waits.err()); err != nil {
		status["error"] = err.Error()
	}
	if stale := p.versions.Stale(); stale != nil {
		status["stale"] = stale.Error()
	}
	content, _ := json.Marshal(status) // which is JSON
	_, _ = w.Write(content)            // memory
}

// description describes a model, and the rows that it reads.
type description struct {
	Manifest manifest `json:"manifest"`
	Names    []string `json:"names"`   // the labels, or the names of the numbers
	Numbers  bool     `json:"numbers"` // it predicts numbers
	Several  bool     `json:"several"` // a row may have several labels
	Width    int      `json:"width"`
	Sparse   bool     `json:"sparse"`
	Columns  []string `json:"columns"` // those that a table has; none: they are not known
	Text     string   `json:"text"`    // the column of texts
	Vectors  bool     `json:"vectors"` // a row may be the list of its features
}

// manifest is a manifest with labels as in answers.
type manifest struct {
	*schemas.Manifest
	Labels []json.RawMessage `json:"labels"`
}

// version describes the current model.
func (p *pipe) version(w http.ResponseWriter, r *http.Request) {
	m := p.versions.Model()
	if m == nil {
		p.server.ServeHTTP(w, r) // which refuses
		return
	}
	needs := layout.TrainedAs(m.Manifest.Plan).ToPredictWith(layout.Features{Columns: m.Columns()}).Needs()
	numbers := !slices.ContainsFunc(m.Columns(), func(c examples.Column) bool { return len(c.Categories) > 0 || c.Time != "" })
	content, _ := json.Marshal(description{ // which is JSON
		Manifest: manifest{m.Manifest, m.LabelType().Values(m.Manifest.Labels)}, Names: m.Labels(),
		Numbers: m.Task() == examples.Numbers, Several: m.Task() == examples.SeveralLabels, Width: m.Width(), Sparse: m.Sparse(),
		Columns: append([]string{}, needs...), Text: m.Manifest.Plan.Input.Text,
		Vectors: !m.Sparse() && (numbers || m.Width() != len(needs)),
	})
	_, _ = w.Write(content) // memory
}

// waits records the operations that wait for brokers. The zero value has none.
type waits struct {
	mutex sync.Mutex
	errs  map[string]error // by operation
}

func (w *waits) Record(e event.Event) {
	if e, ok := e.(event.Waiting); ok {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if w.errs == nil {
			w.errs = map[string]error{}
		}
		if delete(w.errs, e.What); !e.Over {
			w.errs[e.What] = fmt.Errorf("%s: %w", e.What, e.Err)
		}
	}
}

// err returns the error of an operation that waits; nil: none does.
func (w *waits) err() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, err := range w.errs {
		return err
	}
	return nil
}

// file responds with the current model's file.
func (p *pipe) file(w http.ResponseWriter, r *http.Request) {
	m := p.versions.Model()
	if m == nil {
		p.server.ServeHTTP(w, r) // which refuses
		return
	}
	if _, err := m.WriteTo(w); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// staged predicts with the first stages of the model alone.
func (p *pipe) staged(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	m := p.versions.Model()
	if err != nil || m == nil || m.Manifest.Plan.Members() > 1 || n < 1 || n > len(m.Manifest.Plan.Stages) {
		http.NotFound(w, r)
		return
	}
	server, err := p.serve(serve.Fixed(m.First(n)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.URL.Path = "/predict"
	server.ServeHTTP(w, r)
}

// response is a response that is kept until it is complete.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) { r.status = status }

func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

// write writes the response: its status and length, of 16 bytes, and its body.
func (r *response) write(out io.Writer) error {
	head := fmt.Appendf(nil, "%03d %011d\n", r.status, r.body.Len())
	if r.body.Len() <= 64<<10 {
		_, err := out.Write(append(head, r.body.Bytes()...))
		return err
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	_, err := out.Write(r.body.Bytes())
	return err
}
