// Package telemetry exposes what a process does to other programs:
//
//	events of a run ──Logs──▶ records for log collectors
//	events of a run ──Serve──▶ /metrics for Prometheus, /live and /ready for orchestrators
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/endpoint"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/event"
)

// listenOn listens on the address for metrics. If another process has taken it, it listens on the next free one of
// [config.ListenPorts] ports, so that several processes on one machine can share a configuration and Prometheus knows
// where to look. taken says so, or, with a nil listener, that none of them is free. The error is an [option.Problem] if
// this process can't listen on the address for another reason.
func listenOn(address string) (listener net.Listener, taken string, err error) {
	listener, err = net.Listen("tcp", address)
	if err == nil {
		return listener, "", nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, "", option.Problem{Key: "metrics.listen", Value: address,
			Want: fmt.Sprintf("host:port that this process can listen on (%v)", err)}
	}
	host, text, _ := net.SplitHostPort(address) // it is taken, so it is valid
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return nil, "", err
	}
	last := min(port+config.ListenPorts-1, math.MaxUint16)
	for next := port + 1; next <= last; next++ {
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(next))); err == nil {
			return listener, fmt.Sprintf("%s is in use: metrics are at %s", address, listener.Addr()), nil
		}
	}
	return nil, fmt.Sprintf("metrics are not served: ports %d to %d of %s are in use; set metrics.listen", port, last, host), nil
}

// maxConnections is the maximum number of connections for metrics and probes.
const maxConnections = 128

// notices writes lines as notices of a recorder.
type notices struct{ event.Recorder }

func (n notices) Write(line []byte) (int, error) {
	n.Record(event.Noticed{Text: "metrics: " + strings.TrimSpace(string(line))})
	return len(line), nil
}

// serveMetrics serves /metrics, /live and /ready until ctx ends or stop is called. stop returns when the server has
// stopped. trouble returns the reason why the process is not ready, or "". Errors of the server are notices.
func serveMetrics(ctx context.Context, listener net.Listener, registry prometheus.Gatherer, trouble func() string,
	recorder event.Recorder) (stop func()) {
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(notices{recorder}, "", 0),
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: server.ErrorLog}))
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if why := trouble(); why != "" { // alive, but not ready
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	connections, local := endpoint.LimitConnections(server, maxConnections), endpoint.IsLocal(listener)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer connections.Begin(r, false)()
		if err := endpoint.CheckHost(r); err != nil && local {
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // returns ErrServerClosed after Close
	}()
	release := context.AfterFunc(ctx, func() { _ = server.Close() })
	return func() {
		release()
		_ = server.Close()
		<-ended
	}
}

// Serve serves the metrics of a role until stop is called, unless the configuration disables them. The returned
// recorder records events in them too.
func Serve(ctx context.Context, c *config.Config, role string, recorder event.Recorder) (_ event.Recorder, stop func(), err error) {
	m := newMetrics(c.Name, role, time.Now)
	if stop, err = ServeRegistry(ctx, c, m.registry, m.trouble, recorder); err != nil {
		return nil, nil, err
	}
	return tee(event.Serialised(m.Record), recorder), stop, nil // metrics first: they include every logged event
}

// ServeRegistry serves metrics and health of a process until stop is called, unless the configuration disables them, or
// no port is free. trouble returns the reason why the process is not ready, or "".
func ServeRegistry(ctx context.Context, c *config.Config, registry prometheus.Gatherer, trouble func() string,
	recorder event.Recorder) (stop func(), err error) {
	nothing := func() {}
	if c.Metrics.Listen == "" {
		return nothing, nil
	}
	listener, taken, err := listenOn(c.Metrics.Listen)
	if err != nil {
		return nil, err
	}
	if taken != "" {
		recorder.Record(event.Noticed{Text: taken})
	}
	if listener == nil {
		return nothing, nil
	}
	stop = serveMetrics(ctx, listener, registry, trouble, recorder)
	recorder.Record(event.Serving{Address: listener.Addr().String()})
	return stop, nil
}

// tee returns a recorder that passes each event to two recorders.
func tee(first, second event.Recorder) event.Recorder {
	return func(e event.Event) {
		first.Record(e)
		second.Record(e)
	}
}

// Ask requests a /live or /ready URL. It returns nil for status 200, otherwise an error with the response, or why there is none.
func Ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	why, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	return errors.Join(fmt.Errorf("%s: %s: %s", url, answer.Status, strings.TrimSpace(string(why))), err)
}

// Build returns the version of this program, and the revision that it was built from; empty if that is not known.
func Build() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)", ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return info.Main.Version, revision
}

// NewLogs returns a recorder that logs what happens in a pipeline to a handler. Each record has the name of the pipeline, and from the
// beginning of a run to its end the id of the run.
func NewLogs(handler slog.Handler, pipeline string) event.Recorder {
	plain := slog.New(handler).With("pipeline", pipeline)
	logger := plain
	return func(e event.Event) {
		if began, ok := e.(event.Began); ok {
			logger = plain.With("run", began.Run)
		}
		event.Log(e, func(level slog.Level, message string, attributes ...any) {
			logger.Log(context.Background(), level, message, attributes...)
		})
		if _, ok := e.(event.Ended); ok {
			logger = plain
		}
	}
}
