// Package serve serves predictions of models over HTTP:
//
//	POST /predict ──body──▶ rows ──model──▶ version, labels and probabilities
//
// Rows are sent as JSON or as an Arrow stream, and the answer uses the same format. Each answer is from one version.
// Clients are untrusted: bodies, rows, connections and time are limited, and error responses include the reason.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	_ "embed" // for the description
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/endpoint"
	"github.com/stagewise/stagewise/model"
)

// description is the OpenAPI description of the server, served at /openapi.json.
//
//go:embed openapi.json
var description string

// Versions provides the current model. A [client.Follower] is one, and [Fixed] returns another.
type Versions interface {
	// Model returns the model; nil if there is none.
	Model() *model.Model
	// Status returns the status of the model.
	Status() client.Status
	// Stale returns the reason why the model is stale; nil if it is not.
	Stale() error
}

// Server serves predictions. Create servers with [New].
type Server struct {
	options     Options
	notice      func(text string)
	versions    Versions
	registry    *prometheus.Registry
	metrics     *metrics
	register    promauto.Factory // of the metrics of the pipeline
	last        atomic.Pointer[version]
	cores       chan struct{}  // cores in use
	late        error          // of an answer that takes too long to compute
	memory      memories       // for requests and answers
	answers     *answersWriter // nil: answers are not written
	connections *endpoint.Connections
	tls         *credential[*tls.Certificate] // nil: no TLS
	token       *credential[digest]           // of the bearer token; nil: none is required
	routes      map[string]route              // by pattern of the mux
	mux         *http.ServeMux
	local       bool        // only requests for this machine are answered
	atOnce      func() bool // nil: never
	ending      atomic.Bool // the server is shutting down
	ready       atomic.Bool // when it was last asked
}

// route is the handler of a path.
type route struct {
	method   string
	public   bool // without a token
	predicts bool
	answer   handler
}

// handler answers a request, or returns the error that refuses it.
type handler func(http.ResponseWriter, *http.Request) error

// digest is the stored form of a token.
type digest [sha256.Size]byte

// version is a model with precomputed data for answers.
type version struct {
	*model.Model
	options      layout.Options    // of the rows
	readers      sync.Pool         // of *reader
	quoted       []json.RawMessage // the labels as JSON
	list         json.RawMessage   // of them
	wholeNumbers []int64           // the labels, if all are integers; otherwise nil
}

// New returns a server of the current model of versions. o must pass [Options.Check]. It registers its metrics, with the
// label pipeline. The server calls notice, concurrently, with messages for the operator. The error is a [option.Problem] with a file of the
// options.
func New(o Options, versions Versions, registry *prometheus.Registry, pipeline string, notice func(text string)) (*Server, error) {
	s := &Server{
		options: o, notice: notice, versions: versions, registry: registry, connections: new(endpoint.Connections),
		cores: make(chan struct{}, runtime.GOMAXPROCS(0)), memory: newMemories(&o),
		late: refuse(http.StatusServiceUnavailable, "the answer was not computed within %v: send fewer rows at a time", o.Timeout),
	}
	var err error
	if o.TokenFile != "" {
		if s.token, err = newCredential(o.token, notice, o.TokenFile); err != nil {
			return nil, err
		}
	}
	if o.Certificate != "" {
		if s.tls, err = newCredential(o.certificate, notice, o.Certificate, o.Key); err != nil {
			return nil, err
		}
		s.tls.expires = func(c *tls.Certificate) time.Time { return c.Leaf.NotAfter }
	}
	s.register = promauto.With(prometheus.WrapRegistererWithPrefix("stagewise_",
		prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": pipeline}, registry)))
	s.metrics = newMetrics(s)
	s.setRoutes()
	s.mux = http.NewServeMux()
	for pattern := range s.routes {
		s.mux.HandleFunc(pattern, s.answerRoute)
	}
	s.mux.HandleFunc("/", s.answerRoute)
	return s, nil
}

// EndAtOnce makes the server end without the time of serve.drain if a function returns true when ctx has ended. It must be
// called before Serve.
func (s *Server) EndAtOnce(atOnce func() bool) { s.atOnce = atOnce }

// Serve serves a listener until ctx ends. Then it is not ready, serves for the time of the options, answers the requests
// received so far, and returns nil. Requests that exceed the timeout are aborted.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s.tls != nil)
	protocols.SetUnencryptedHTTP2(s.tls == nil)
	server := &http.Server{
		Handler: s, Protocols: protocols, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: s.options.Timeout / 2, ReadTimeout: s.options.Timeout, WriteTimeout: 3 * s.options.Timeout, IdleTimeout: time.Minute,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // client errors are counted, not logged
	}
	s.connections = endpoint.LimitConnections(server, s.options.Connections)
	s.local = endpoint.IsLocal(listener) && s.token == nil && !s.options.Open
	serve := server.Serve
	if s.tls != nil {
		_, _ = s.tls.get() // which may have expired
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, _ := s.tls.get()
			return certificate, nil
		}}
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	defer s.closeAnswers(ctx)
	ended := make(chan error, 1)
	go func() { ended <- serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.ending.Store(true)
	drain := s.options.Drain
	if s.atOnce != nil && s.atOnce() {
		drain = 0
	}
	select {
	case err := <-ended: // the listener was closed
		return err
	case <-time.After(drain):
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	err := server.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-ended
	return err
}

// ServeHTTP handles a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	counted := &counted{ResponseWriter: w, status: http.StatusOK, call: isCall(r)}
	defer func() {
		cause := recover()
		broken := cause != nil && counted.begun
		if cause != nil && cause != http.ErrAbortHandler {
			s.metrics.panics.Inc()
			s.notice(fmt.Sprintf("request failed: %v; it was %s", cause, shapeOf(r)))
			if !broken {
				s.refuse(counted, r, errors.New("the request failed: see the server's log"))
			}
		}
		of := r.Pattern
		if _, known := s.routes[of]; !known {
			of = "other"
		}
		s.metrics.requests.WithLabelValues(of, strconv.Itoa(counted.status)).Inc()
		if s.routes[of].predicts {
			s.metrics.seconds.Observe(time.Since(began).Seconds())
		}
		if broken || cause == http.ErrAbortHandler {
			panic(http.ErrAbortHandler) // the response is incomplete, and the client must notice that
		}
	}()
	s.mux.ServeHTTP(counted, r)
}

// answerRoute answers a request, or refuses it.
func (s *Server) answerRoute(w http.ResponseWriter, r *http.Request) {
	switch err := s.route(w, r); {
	case err != nil:
		s.refuse(w, r, err)
	case isCall(r):
		endCall(w.Header(), http.StatusOK, "")
	}
}

// route answers a request for a pattern of the mux.
func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	to, known := s.routes[r.Pattern]
	misdirected := endpoint.CheckHost(r)
	switch {
	case !known && isCall(r):
		return refuse(http.StatusNotImplemented, "there is no method %.80q", r.URL.Path)
	case !known:
		return refuse(http.StatusNotFound, "there is no %.80q: see /openapi.json", r.URL.Path)
	case s.local && !to.public && misdirected != nil:
		return refuse(http.StatusMisdirectedRequest, "%s; behind a proxy that passes other names on, set serve.open: true", misdirected)
	case !to.public && !s.allowed(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		return refuse(http.StatusUnauthorized, "missing or wrong bearer token")
	case r.Method != to.method && !(r.Method == http.MethodHead && to.method == http.MethodGet):
		w.Header().Set("Allow", to.method)
		return refuse(http.StatusMethodNotAllowed, "%.20s: expected %s", r.Method, to.method)
	}
	if to.method == http.MethodGet {
		defer s.connections.Begin(r, !to.public)()
	}
	return to.answer(w, r)
}

// allowed reports whether a request has the token, if one is required.
func (s *Server) allowed(r *http.Request) bool {
	if s.token == nil {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, _ := s.token.get()
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

// refuse responds with the reason of an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	no, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		no = &refusal{http.StatusServiceUnavailable, "the request has ended"}
	default:
		no = &refusal{http.StatusInternalServerError, err.Error()}
	}
	if isCall(r) {
		w.Header().Set(headerType, typeCall)
		w.WriteHeader(no.status)
		endCall(w.Header(), no.status, no.reason)
		return
	}
	w.Header().Set(headerType, typeJSON)
	if no.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(no.status)
	content, _ := json.Marshal(map[string]string{"error": no.reason}) // strings can be encoded
	_, _ = w.Write(append(content, '\n'))                             // the client may have disconnected
}

// versionFor returns the version that a request names, or else the newest.
func (s *Server) versionFor(r *http.Request) (*version, error) {
	v, err := s.newest()
	if err != nil {
		return nil, err
	}
	return v, v.named(r.PathValue("model"), r.PathValue("version"))
}

// named returns an error if a request names another model or version. "" names none.
func (v *version) named(name, number string) error {
	switch newest := strconv.Itoa(v.Manifest.Version); {
	case name != "" && name != v.Manifest.Name:
		return refuse(http.StatusNotFound, "there is no model %.80q: expected %s", name, v.Manifest.Name)
	case number != "" && number != newest:
		return refuse(http.StatusNotFound, "version %.20q is not served, only version %s", number, newest)
	}
	return nil
}

// manifest responds with the manifest of the version.
func (s *Server) manifest(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionFor(r)
	if err != nil {
		return err
	}
	return answerJSON(w, Manifest(v.Model))
}

// constant returns a function that answers with a constant document.
func constant(kind, document string) handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set(headerType, kind)
		_, _ = io.WriteString(w, document) // the client may have disconnected
		return nil
	}
}

// answerJSON answers with a value as JSON.
func answerJSON(w http.ResponseWriter, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set(headerType, typeJSON)
	_, _ = w.Write(content) // the client may have disconnected
	return nil
}

func (s *Server) measures(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

// Trouble returns why the server is not ready: it has no usable version, or is shutting down. "" means that it is ready.
func (s *Server) Trouble() string {
	if s.ending.Load() {
		return "the server is shutting down"
	}
	if err := s.versions.Stale(); err != nil {
		return err.Error()
	}
	return ""
}

// ifReady returns a handler for a server that is ready. Only clients with the token, if one is required, get the reason why it is not.
// Probes seldom have one, so the operator is told when the server is no longer ready.
func (s *Server) ifReady(answer handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		why := s.Trouble()
		if s.ready.Swap(why == "") && why != "" {
			s.notice("not ready: " + why)
		}
		switch {
		case why == "":
			return answer(w, r)
		case !s.allowed(r):
			why = "not ready"
		}
		return refuse(http.StatusServiceUnavailable, "%s", why)
	}
}

// counted records the status of a response.
type counted struct {
	http.ResponseWriter
	status int
	begun  bool // something was written
	call   bool // of gRPC, which has its status in trailers
}

func (c *counted) WriteHeader(status int) {
	c.status, c.begun = status, true
	if c.call {
		status = http.StatusOK
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(p []byte) (int, error) {
	c.begun = true
	return c.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// fixed is a model that never changes.
type fixed struct{ model *model.Model }

// Fixed returns a model as the only version, for example from a file.
func Fixed(m *model.Model) Versions { return fixed{m} }

func (f fixed) Model() *model.Model { return f.model }

func (f fixed) Status() client.Status {
	return client.Status{Version: f.model.Manifest.Version, Run: f.model.Manifest.Run}
}

func (f fixed) Stale() error { return nil }

// setRoutes sets the routes: of the server, of the Open Inference Protocol, version 2, and of MLflow's scoring server.
func (s *Server) setRoutes() {
	ready := route{method: http.MethodGet, public: true, answer: s.ifReady(constant(typeText, "ready\n"))}
	metadata := constant(typeJSON, `{"name":"stagewise","version":"2","extensions":["binary_tensor_data"]}`)
	s.routes = map[string]route{
		"/predict":         {method: http.MethodPost, predicts: true, answer: s.predict},
		"/model":           {method: http.MethodGet, answer: s.manifest},
		"/metrics":         {method: http.MethodGet, answer: s.measures},
		"/openapi.json":    {method: http.MethodGet, answer: constant(typeJSON, description)},
		"/live":            {method: http.MethodGet, public: true, answer: constant(typeText, "alive\n")},
		"/ready":           ready,
		"/v2":              {method: http.MethodGet, answer: metadata},
		"/v2/health/live":  {method: http.MethodGet, public: true, answer: constant(typeJSON, `{"live":true}`)},
		"/v2/health/ready": {method: http.MethodGet, public: true, answer: s.ifReady(constant(typeJSON, `{"ready":true}`))},
		"/invocations":     {method: http.MethodPost, predicts: true, answer: s.invoke},
		"/ping":            ready,
		"/health":          ready,
	}
	for _, path := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		s.routes[path] = route{method: http.MethodGet, answer: s.modelMetadata}
		s.routes[path+"/ready"] = route{method: http.MethodGet, answer: s.ifReady(s.readyModel)}
		s.routes[path+"/infer"] = route{method: http.MethodPost, predicts: true, answer: s.infer}
	}
	s.addCalls()
}

// infer handles a prediction request of the Open Inference Protocol.
func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get(headerType) != "" { // Triton's client sends none
		if _, err := contentType(r, typeJSON, typeBytes); err != nil {
			return err
		}
	}
	return s.respond(w, &prediction{request: r, sent: openInference, kind: openInference})
}

// invoke handles a prediction request of MLflow.
func (s *Server) invoke(w http.ResponseWriter, r *http.Request) error {
	if _, err := contentType(r, typeJSON); err != nil {
		return err
	}
	return s.respond(w, &prediction{request: r, sent: mlflow, kind: mlflow})
}

// readyModel responds that a model is ready.
func (s *Server) readyModel(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionFor(r)
	if err != nil {
		return err
	}
	return answerJSON(w, map[string]any{"name": v.Manifest.Name, "ready": true})
}

// tensorMetadata describes a tensor. Any number of rows is -1.
type tensorMetadata struct {
	Name       string         `json:"name"`
	Datatype   string         `json:"datatype"`
	Shape      []int          `json:"shape"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// modelMetadata responds with the inputs and outputs of the version. Probabilities and predictions have the labels in their order.
func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionFor(r)
	if err != nil {
		return err
	}
	of, err := v.reader()
	if err != nil {
		return err
	}
	defer v.readers.Put(of)
	inputs, outputs := []tensorMetadata{}, []tensorMetadata{}
	for column, name := range of.layout.Names {
		datatype := "BYTES"
		if of.layout.IsNumber(column) {
			datatype = "FP64"
		}
		inputs = append(inputs, tensorMetadata{Name: name, Datatype: datatype, Shape: []int{-1}})
	}
	if len(inputs) == 0 && !v.Sparse() {
		inputs = append(inputs, tensorMetadata{Name: "features", Datatype: "FP32", Shape: []int{-1, v.Width()}})
	}
	for _, o := range v.outputs() {
		t := tensorMetadata{Name: o.name, Datatype: o.datatype, Shape: []int{-1}}
		if o.width > 0 {
			t.Shape, t.Parameters = append(t.Shape, o.width), map[string]any{"classes": v.quoted}
		}
		outputs = append(outputs, t)
	}
	return answerJSON(w, map[string]any{"name": v.Manifest.Name, "versions": []string{strconv.Itoa(v.Manifest.Version)},
		"platform": "stagewise", "inputs": inputs, "outputs": outputs})
}

// refusal is an error response with a reason.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(status int, format string, values ...any) error {
	return &refusal{status, fmt.Sprintf(format, values...)}
}

// unusable rejects a body with the reason why its rows can't be read, unless that is not a fault of the body.
func unusable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused
	}
	return refuse(http.StatusBadRequest, "%s", err)
}

// shapeOf describes a request without its contents, and the innermost functions of this module in the current panic.
func shapeOf(r *http.Request) string {
	h := r.Header
	text := fmt.Sprintf("%.20s %.40q of %d bytes, Content-Type %.80q, Content-Encoding %.40q, Accept %.80q, %s", r.Method, r.URL.Path,
		r.ContentLength, h.Get(headerType), h.Get("Content-Encoding"), h.Get("Accept"), r.Proto)
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	thrown := false
	for n, more := 0, true; more && n < 3; {
		var f runtime.Frame
		f, more = frames.Next()
		if thrown && strings.Contains(f.Function, "stagewise") {
			text += fmt.Sprintf(", at %s:%d", path.Join(path.Base(path.Dir(f.File)), path.Base(f.File)), f.Line)
			n++
		}
		thrown = thrown || f.Function == "runtime.gopanic"
	}
	return text
}
