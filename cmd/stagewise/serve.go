package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/serve"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	modelFlags
	show   displayFlags
	listen string
	pipe   bool // answer on the standard input and output
}

func newServe() *cobra.Command {
	f := serveFlags{show: displayFlags{log: logText}}
	cmd := &cobra.Command{
		Use: "serve (-c FILE | --model FILE)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd, "serve this `version` only: a version number or run id (default "+protocol.Latest+")",
		"serve the model in a `file`, without connecting to brokers")
	f.show.add(cmd)
	cmd.Flags().StringVar(&f.listen, "listen", "", "listen on this `host:port` (default "+serve.Defaults().Listen+")")
	cmd.Flags().BoolVar(&f.pipe, "pipe", false, "answer the process that starts the command, on standard input and output")
	_ = cmd.Flags().MarkHidden("pipe") // it is defined
	excludes(cmd, "model", "it selects the version", "version")
	return cmd
}

// load returns the configuration. Without a file it has the defaults.
func (f *serveFlags) load() (*config.Config, error) {
	switch {
	case f.from.file == "" && len(f.from.set) > 0:
		return nil, errors.New("--set: expected -c FILE too: --set overrides its keys")
	case f.from.file != "":
		if f.listen != "" {
			f.from.set = append(f.from.set, "serve.listen="+f.listen)
		}
		return f.from.load()
	}
	c := config.Defaults()
	if f.listen != "" {
		c.Serve.Listen = f.listen
	}
	if problems := c.Serve.Check(); len(problems) > 0 {
		problems[0].Key = "--" + problems[0].Key
		return nil, problems[0]
	}
	return c, nil
}

func (f *serveFlags) run(cmd *cobra.Command) error {
	c, err := f.load()
	if err != nil {
		return err
	}
	if err := f.show.check(); err != nil {
		return err
	}
	if _, err := openBLAS(); err != nil { // each predictor opens the BLAS itself
		return err
	}
	show, finish := f.show.recorder(c, cmd.ErrOrStderr())
	defer finish()
	if f.file != "" {
		if topic := c.Serve.Answers.Topic; topic != "" {
			return option.Problem{Key: "serve.answers.topic", Value: topic, Want: "no value with --model, which connects to no brokers"}
		}
		m, err := readModel(f.file)
		if err != nil {
			return failed(err)
		}
		if f.pipe {
			return failed(answerPipe(cmd, c.Serve, serve.Fixed(m), m.Manifest.Name))
		}
		registry, recorder := telemetry.ForServer(m.Manifest.Name, show)
		return failed(answer(cmd.Context(), c, serve.Fixed(m), m.Manifest.Name, nil, registry, recorder))
	}
	o := client.Options{Name: c.Name, Version: f.version, MaxAge: c.Serve.MaxAge, MaxSilence: c.Serve.MaxSilence}
	if f.pipe {
		follower, err := client.FollowWith(cmd.Context(), c.Log(), o)
		if err != nil {
			return failed(err)
		}
		return failed(errors.Join(answerPipe(cmd, c.Serve, follower, c.Name), follower.Close()))
	}
	registry, recorder := telemetry.ForServer(c.Name, show)
	err = withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
		follower, err := client.FollowOn(cmd.Context(), log, o)
		if err != nil {
			return err
		}
		told := tellVersions(cmd.Context(), follower, recorder)
		defer told()
		ctx, stop := context.WithCancel(cmd.Context())
		var beside sync.WaitGroup
		beside.Go(func() { appear(ctx, log, c.Name, follower, recorder) })
		err = answer(ctx, c, follower, c.Name, log, registry, recorder)
		stop()
		beside.Wait()
		return errors.Join(err, follower.Close())
	})
	if cmd.Context().Err() != nil {
		return nil
	}
	return failed(err)
}

// answer answers requests until ctx ends. log has the topic of the answers; nil if answers are not written.
func answer(ctx context.Context, c *config.Config, versions serve.Versions, pipeline string, log *kafkalog.Log,
	registry *prometheus.Registry, recorder event.Recorder) error {
	o := c.Serve
	allowGarbage(ctx, int64(o.Memory)/8)
	server, err := serve.New(o, versions, registry, pipeline, func(text string) { event.Notice(recorder, "%s", text) })
	if err != nil {
		return err
	}
	server.EndAtOnce(func() bool { return !terminated(ctx) }) // Ctrl-C ends the server at once
	if o.Answers.Topic != "" {
		if err := log.Create(ctx, kafkalog.Topic{Name: o.Answers.Topic, Partitions: c.Examples.Partitions}); err != nil {
			return fmt.Errorf("serve.answers.topic: %w", err)
		}
		if err := server.WriteAnswers(ctx, log); err != nil {
			return err
		}
	}
	if c.Metrics.Listen != config.DefaultListen { // the address for requests has metrics too, but may need a token
		stop, err := telemetry.ServeRegistry(context.WithoutCancel(ctx), c, registry, server.Trouble, recorder)
		if err != nil {
			return err
		}
		defer stop()
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return option.Problem{Key: "serve.listen", Value: o.Listen, Want: fmt.Sprintf("host:port that this process can listen on (%v)", err)}
	}
	scheme := "http"
	if o.Certificate != "" {
		scheme = "https"
	}
	recorder.Record(event.Answering{URL: fmt.Sprintf("%s://%s/predict", scheme, listener.Addr())})
	return server.Serve(ctx, listener)
}

// appear makes the server a member of a group when it has a version, until ctx ends: the page of the pipeline shows the members. Nothing
// else depends on the group, so a server that is refused continues.
func appear(ctx context.Context, log *kafkalog.Log, pipeline string, follower *client.Follower, recorder event.Recorder) {
	for changed := follower.Changed(); follower.Model() == nil; changed = follower.Changed() {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	if log.Embedded() {
		return
	}
	topics := protocol.TopicsOf(pipeline)
	member := log.Join(topics.Group(protocol.RoleServe), topics.Versions)
	for member.Err() == nil && ctx.Err() == nil {
		select {
		case <-member.Changed():
		case <-ctx.Done():
		}
	}
	if err := member.Err(); err != nil {
		event.Notice(recorder, "the page does not show this server: %v", err)
	}
	if err := member.Leave(); err != nil {
		event.Notice(recorder, "leave the group of servers: %v", err)
	}
}

// versionPatience is the time that a starting process waits for its first version before it reports that there is none:
// reading a version takes a moment.
const versionPatience = time.Second

// tellVersions records which version predicts, or that there is none, at each change, until ctx ends or stop is called.
func tellVersions(ctx context.Context, follower *client.Follower, recorder event.Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() {
		var patience <-chan time.Time // nil once versions are recorded
		if follower.Model() == nil {
			patience = time.After(versionPatience)
		}
		for {
			changed := follower.Changed()
			if patience == nil {
				recorder.Record(answers(follower))
			}
			select {
			case <-changed:
			case <-patience:
			case <-ctx.Done():
				return
			}
			patience = nil
		}
	})
	return func() {
		cancel()
		told.Wait()
	}
}

// answers returns the event with the version that predicts now.
func answers(follower *client.Follower) event.Answers {
	for {
		if m := follower.Model(); m != nil {
			return event.Answers{Version: m.Manifest.Version}
		}
		if why := follower.Stale(); why != nil { // else a version has come since
			return event.Answers{Why: why}
		}
	}
}

// pipe answers the process that started this one. Requests are on the standard input, as HTTP/1.1 without chunks. Their responses are on
// the standard output, in the same order. It ends with the standard input.
type pipe struct {
	versions serve.Versions
	server   *serve.Server
	serve    func(versions serve.Versions) (*serve.Server, error) // returns a server of other versions
}

// answerPipe answers requests on the standard input of a command. The limits of a server do not apply to its only client.
func answerPipe(cmd *cobra.Command, o serve.Options, versions serve.Versions, pipeline string) error {
	o.MaxBody, o.MaxRows, o.Memory, o.Timeout, o.Answers.Topic = 1<<31, math.MaxInt32, 1<<34, 24*time.Hour, ""
	p := &pipe{versions: versions, serve: func(versions serve.Versions) (*serve.Server, error) {
		return serve.New(o, versions, prometheus.NewRegistry(), pipeline, func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) })
	}}
	var err error
	if p.server, err = p.serve(versions); err != nil {
		return err
	}
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

// status responds with the status of the version.
func (p *pipe) status(w http.ResponseWriter, _ *http.Request) {
	s := p.versions.Status()
	status := map[string]any{
		"version": s.Version, "run": s.Run, "kind": s.Kind, "parent": s.Parent, "written": nil, "age": s.Age.Seconds(), "silence": nil,
		"no_pipeline": errors.As(s.Err, new(*protocol.NoPipelineError)),
	}
	if s.Written.Unix() > 0 {
		status["written"] = float64(s.Written.UnixMilli()) / 1e3
	}
	if s.Silence < math.MaxInt64 { // the brokers have confirmed the version
		status["silence"] = s.Silence.Seconds()
	}
	if s.Err != nil {
		status["error"] = s.Err.Error()
	}
	if stale := p.versions.Stale(); stale != nil {
		status["stale"] = stale.Error()
	}
	content, _ := json.Marshal(status) // which is JSON
	_, _ = w.Write(content)            // memory
}

// description describes a model, and the rows that it reads.
type description struct {
	Manifest any      `json:"manifest"`
	Names    []string `json:"names"`   // the labels, or the names of the numbers
	Numbers  bool     `json:"numbers"` // it predicts numbers
	Several  bool     `json:"several"` // a row may have several labels
	Width    int      `json:"width"`
	Sparse   bool     `json:"sparse"`
	Columns  []string `json:"columns"` // of a table; empty if unknown
	Text     string   `json:"text"`    // the column of texts
	Vectors  bool     `json:"vectors"` // a row may be the list of its features
}

// version describes the current model.
func (p *pipe) version(w http.ResponseWriter, r *http.Request) {
	m := p.versions.Model()
	if m == nil {
		p.server.ServeHTTP(w, r) // which rejects the request
		return
	}
	needs := layout.TrainedAs(m.Manifest.Plan).ToPredictWith(layout.Features{Columns: m.Columns()}).Needs
	numbers := !slices.ContainsFunc(m.Columns(), func(c examples.Column) bool { return len(c.Categories) > 0 || c.Time != "" })
	content, _ := json.Marshal(description{ // which is JSON
		Manifest: serve.Manifest(m), Names: m.Labels(),
		Numbers: m.Task() == examples.Numbers, Several: m.Task() == examples.SeveralLabels, Width: m.Width(), Sparse: m.Sparse(),
		Columns: append([]string{}, needs...), Text: m.Manifest.Plan.Input.Text,
		Vectors: !m.Sparse() && (numbers || m.Width() != len(needs)),
	})
	_, _ = w.Write(content) // memory
}

// file responds with the current model's file.
func (p *pipe) file(w http.ResponseWriter, r *http.Request) {
	m := p.versions.Model()
	if m == nil {
		p.server.ServeHTTP(w, r) // which rejects the request
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

// response buffers a response until it is complete.
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
	body := net.Buffers{fmt.Appendf(nil, "%03d %011d\n", r.status, r.body.Len()), r.body.Bytes()}
	_, err := body.WriteTo(out)
	return err
}
