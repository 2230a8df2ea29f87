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
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/page"
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
		patience := time.After(versionPatience) // nil once versions are recorded
		for {
			changed, m := follower.Changed(), follower.Model()
			if m != nil {
				patience = nil
				recorder.Record(event.Answers{Version: m.Manifest.Version})
			} else if why := follower.Stale(); patience == nil && why != nil { // else a version has come since
				recorder.Record(event.Answers{Why: why})
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

// answerPipe answers the process that started this one, until the standard input of a command ends. Requests are on the standard input, as
// HTTP/1.1 without chunks. Their responses are on the standard output, in the same order. The limits of a server do not apply to its only
// client.
func answerPipe(cmd *cobra.Command, o serve.Options, versions serve.Versions, pipeline string) error {
	o.MaxBody, o.MaxRows, o.Memory, o.Timeout, o.Answers.Topic = 1<<31, math.MaxInt32, 1<<34, 24*time.Hour, ""
	handler, err := pipeHandler(versions, func(versions serve.Versions) (*serve.Server, error) {
		return serve.New(o, versions, prometheus.NewRegistry(), pipeline, func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) })
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- answerAll(cmd.Context(), handler, bufio.NewReaderSize(cmd.InOrStdin(), 64<<10), cmd.OutOrStdout())
	}()
	select {
	case err := <-ended:
		return err
	case <-cmd.Context().Done(): // the goroutine waits for input until the process ends
		return nil
	}
}

// answerAll answers requests until the input ends.
func answerAll(ctx context.Context, handler http.Handler, in *bufio.Reader, out io.Writer) error {
	for {
		r, err := http.ReadRequest(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a request from the standard input: %w", err)
		}
		w := &response{header: http.Header{}, status: http.StatusOK}
		handler.ServeHTTP(w, r.WithContext(ctx))
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return fmt.Errorf("read a request from the standard input: %w", err)
		}
		answer := net.Buffers{fmt.Appendf(nil, "%03d %011d\n", w.status, w.Len()), w.Bytes()} // the first one has 16 bytes
		if _, err := answer.WriteTo(out); err != nil {
			return fmt.Errorf("write a response to the standard output: %w", err)
		}
	}
}

// response buffers a response until it is complete.
type response struct {
	header http.Header
	status int
	bytes.Buffer
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) { r.status = status }

// pipeHandler returns what a server answers, and what Python asks besides. open returns the server of some versions.
func pipeHandler(versions serve.Versions, open func(serve.Versions) (*serve.Server, error)) (http.Handler, error) {
	server, err := open(versions)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", server)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, versions) })
	current := func(pattern string, answer func(w http.ResponseWriter, r *http.Request, m *model.Model) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			m := versions.Model()
			if m == nil {
				server.ServeHTTP(w, r) // which rejects the request
			} else if err := answer(w, r, m); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	current("GET /version", func(w http.ResponseWriter, _ *http.Request, m *model.Model) error { return describeModel(w, m) })
	current("GET /file", func(w http.ResponseWriter, _ *http.Request, m *model.Model) error {
		_, err := m.WriteTo(w)
		return err
	})
	current("POST /stages/{n}/predict", func(w http.ResponseWriter, r *http.Request, m *model.Model) error { // by the first n stages alone
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil || m.Manifest.Plan.Members() > 1 || n < 1 || n > len(m.Manifest.Plan.Stages) {
			http.NotFound(w, r)
			return nil
		}
		first, err := open(serve.Fixed(m.First(n)))
		if err == nil {
			r.URL.Path = "/predict"
			first.ServeHTTP(w, r)
		}
		return err
	})
	return mux, nil
}

// writeStatus writes which version predicts, and how old it is.
func writeStatus(w io.Writer, versions serve.Versions) {
	s := versions.Status()
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
	if stale := versions.Stale(); stale != nil {
		status["stale"] = stale.Error()
	}
	_ = json.NewEncoder(w).Encode(status) // which is JSON
}

// describeModel writes what a model predicts, and the rows that it reads.
func describeModel(w io.Writer, m *model.Model) error {
	needs := layout.TrainedAs(m.Manifest.Plan).ToPredictWith(layout.Features{Columns: m.Columns()}).Needs
	numbers := !slices.ContainsFunc(m.Columns(), func(c examples.Column) bool { return len(c.Categories) > 0 || c.Time != "" })
	return json.NewEncoder(w).Encode(struct {
		Manifest any      `json:"manifest"`
		Names    []string `json:"names"`   // the labels, or the names of the numbers
		Numbers  bool     `json:"numbers"` // it predicts numbers
		Several  bool     `json:"several"` // a row may have several labels
		Width    int      `json:"width"`
		Sparse   bool     `json:"sparse"`
		Columns  []string `json:"columns"` // of a table; empty if unknown
		Text     string   `json:"text"`    // the column of texts
		Vectors  bool     `json:"vectors"` // a row may be the list of its features
	}{
		serve.Manifest(m), m.Labels(), m.Task() == examples.Numbers, m.Task() == examples.SeveralLabels, m.Width(), m.Sparse(),
		append([]string{}, needs...), m.Manifest.Plan.Input.Text, !m.Sparse() && (numbers || m.Width() != len(needs)),
	})
}

func newPage() *cobra.Command {
	at := pageFlag{name: "listen", address: "127.0.0.1:0"}
	cmd := new(configFlags).command("page -c FILE", cobra.NoArgs, &displayFlags{}, func(c *call) error {
		return c.session(session{with: withLog, page: at, untilSignal: true}, func() error {
			<-c.Context().Done()
			return nil
		})
	})
	at.add(cmd, "serve the page")
	return cmd
}

// pageFlag is the flag of a command with the address of the page; an empty address means no page.
type pageFlag struct{ name, address string }

// add defines the flag.
func (f *pageFlag) add(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(checked{&f.address, page.CheckListen}, f.name,
		usage+" at this `host:port` of the loopback interface; port 0: any free port")
}

// show serves the page of a pipeline at the address until stop is called, which returns when reading has ended. It
// ignores errors while serving, so that the page can't end the command.
func (f pageFlag) show(c *call) (stop func(), err error) {
	if f.address == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		return nil, option.Problem{Key: "--" + f.name, Value: f.address, Want: fmt.Sprintf("host:port that this process can listen on (%v)", err)}
	}
	ctx, cancel := context.WithCancel(c.Context())
	board := page.NewBoard()
	var shown sync.WaitGroup
	shown.Go(func() {
		page.Read(ctx, c.log, page.Options{Name: c.config.Name, Examples: c.config.Examples.Topic, Source: c.config.Examples.FromTopic,
			Brokers: screen.Brokers(c.config), Values: c.config.Logs.Values}, board)
	})
	shown.Go(func() { _ = page.NewServer(board).Serve(ctx, listener) })
	c.recorder.Record(event.PageServed{URL: fmt.Sprintf("http://%s/", listener.Addr())})
	return func() {
		cancel()
		shown.Wait()
	}, nil
}
