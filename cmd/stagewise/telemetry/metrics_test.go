package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

var update = flag.Bool("update", false, "write the goldens of metrics as they are now")

// listened serves the metrics of a role on a free port. get returns what is at a path.
func listened(t *testing.T, m *metrics) (get func(path string) (int, string)) {
	t.Helper()
	listener, _, err := listenOn("127.0.0.1:0")
	assert.NoError(t, err)
	serveRole(t, listener, m, nil)
	return func(path string) (int, string) {
		t.Helper()
		response := assert.Must(http.Get("http://" + listener.Addr().String() + path))(t)
		defer response.Body.Close()
		return response.StatusCode, string(assert.Must(io.ReadAll(response.Body))(t))
	}
}

// samples returns the lines of metrics of this program, without their label pipeline, which all must have.
func samples(t *testing.T, body string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "stagewise_") {
			continue
		}
		assert.True(t, strings.Contains(line, `pipeline="p"`), "no pipeline in %s", line)
		line = strings.NewReplacer(`pipeline="p",`, "", `,pipeline="p"`, "", `{pipeline="p"}`, "").Replace(line)
		lines = append(lines, line)
	}
	return lines
}

// clock stands still, half a second after a second.
func clock() time.Time { return time.Unix(1000, 500_000_000) }

func pointer(x float64) *float64 { return &x }

// runEvents is what happens in a run, as both roles record it.
func runEvents() []event.Event {
	return []event.Event{
		event.Owned{Partitions: []int{0}},
		event.Began{Run: "abc"},
		event.Quarantined{}, event.Quarantined{}, event.Lost{From: 2, To: 5}, event.ColumnLost{Column: "a", Rows: 3}, event.ColumnLost{Column: "a", Rows: 4},
		event.Visited{Stage: wire.Survey, Partitions: []int{0}, Elapsed: time.Second},
		event.Progressed{Stage: 2, Visit: 1, Rows: 40, Of: 100}, event.Progressed{Stage: 2, Visit: 1, Rows: 70, Of: 100},
		event.Visited{Stage: 2, Visit: 1, Partitions: []int{0}, Elapsed: 2 * time.Second},
		event.Progressed{Stage: 2, Visit: 2, Rows: 5, Of: 100},
		event.Sealed{Stage: 2, Rows: 100, Elapsed: 3 * time.Second},
		event.Solved{Stage: 2, Visit: 2, Waited: 4 * time.Second, Elapsed: 5 * time.Second},
		event.Rewritten{Topic: "p.plans"}, event.Rewritten{Topic: "p.plans"},
		event.Retrained{RetrainReport: schemas.RetrainReport{
			Version: 7, Kind: schemas.RunUpdate, Rows: 100, WindowRows: 1000, Offered: true, Seconds: 0.5, PrequentialError: pointer(3.0),
			PrequentialLoss: pointer(0.5), HoldoutError: pointer(2.0), Served: []schemas.ServedReport{{Version: 5, Rows: 40, Error: 50}},
		}},
		event.Retrained{RetrainReport: schemas.RetrainReport{
			Version: 8, Kind: schemas.RunUpdate, Rows: 50, WindowRows: 1050, Lost: 5, Gone: 6, Forgotten: 3, Drift: true, Seconds: 0.25,
			PrequentialError: pointer(90.0), PrequentialLoss: pointer(2.0),
			Served:             []schemas.ServedReport{{Version: 6, Rows: 40, Error: 12.5}},
			PrequentialLogLoss: pointer(1.5), PrequentialBrier: pointer(1.25), PrequentialECE: pointer(0.75), UnknownRows: 4,
			MostlyBad: &coverage.BadMessages{Messages: 1, Of: 1}, Until: 999_250,
		}},
		event.Behind{Messages: 3, Rows: 300}, event.SourceLag{Topic: "clicks", Messages: 40},
		event.Ingested{Files: []string{"topic clicks"}, Rows: 8}, event.Ingested{Files: []string{"topic clicks"}, Rows: 20},
		event.Ingested{Files: []string{"topic clicks"}, Rows: 5},
		event.Replaced{Partition: 1}, event.Incomplete{Version: 4}, event.Incomplete{Version: 5},
		event.Scored{Messages: 3, Rows: 30, Bad: 1, Version: 6}, event.Scored{Messages: 1, Rows: 10, Version: 7},
		event.ScoringLag{Offsets: map[int]int64{0: 9, 1: 2}}, event.ScoringLag{Offsets: map[int]int64{1: 4}}, // 0 went to another process
		event.Passed{Stage: 2, Visit: 2, Pass: 3, Objective: 0.25, Metrics: map[examples.Split]event.Metrics{examples.Test: {Error: 1.5,
			Loss: 0.125}}},
	}
}

// A role that does not lead exports no gauge of the chain, of its runs, or of the topic that others ingest.
func TestStandbyExportsNoGauge(t *testing.T) {
	for role, stands := range map[string][]event.Event{
		protocol.RoleRun:    {event.StoodBy{Role: protocol.RoleIngest}, event.StoodBy{Role: protocol.RoleRun}},
		protocol.RoleIngest: {event.StoodBy{Role: protocol.RoleIngest}},
		protocol.RoleScore:  {event.StoodBy{Role: protocol.RoleIngest}, event.ScoringLag{}},
		protocol.RoleSolve:  {event.Ended{Run: "abc", State: schemas.Done}, event.Owned{}},
	} {
		m := newMetrics("p", role, clock)
		for _, e := range append(runEvents(), stands...) {
			m.Record(e)
		}
		_, body := listened(t, m)("/metrics")
		for _, line := range samples(t, body) {
			name, _, _ := strings.Cut(strings.Fields(line)[0], "{")
			gauges := []string{"build_info", "waiting", "standing_aside", "active", "scoring_version"}
			known := strings.HasSuffix(name, "_total") || slices.Contains(gauges, strings.TrimPrefix(name, "stagewise_"))
			assert.True(t, known, "%s exports %s", role, line)
		}
	}
}

// Each role exports what it can have, which is in testdata, and nothing else. A metric of a run has no value before the first run.
func TestMetricsOfRoles(t *testing.T) {
	for _, role := range []string{protocol.RoleWork, protocol.RoleSolve, protocol.RoleIngest, protocol.RoleScore, protocol.RoleRun} {
		m := newMetrics("p", role, clock)
		get := listened(t, m)
		_, body := get("/metrics")
		for _, name := range []string{"run_info", "stage", "visit", "progress_timestamp_seconds", "pass", "objective", "error_ratio", "loss"} {
			assert.True(t, !strings.Contains(body, "\nstagewise_"+name+"{"), "%s: %s has a value before the first run", role, name)
		}
		for _, e := range runEvents() {
			m.Record(e)
		}
		_, body = get("/metrics")
		var got []string
		for _, line := range samples(t, body) {
			if !strings.HasPrefix(line, "stagewise_build_info{goversion=") {
				got = append(got, line)
			}
		}
		slices.Sort(got)
		golden, text := "testdata/"+role+".txt", strings.Join(got, "\n")+"\n"
		if *update {
			assert.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
		}
		want := string(assert.Must(os.ReadFile(golden))(t))
		assert.True(t, text == want, "%s: got\n%s\nexpected\n%s", role, text, want)
		assert.True(t, strings.Contains(body, "\nstagewise_build_info{"), "%s: no build", role)
		assert.True(t, strings.Contains(body, `role="`+role+`"`), "%s: no role in\n%s", role, body)
		m.Record(event.Ended{State: schemas.Done})
		_, body = get("/metrics")
		if role == protocol.RoleScore || role == protocol.RoleIngest { // it takes part in no run
			continue
		}
		lines := samples(t, body)
		assert.True(t, slices.Contains(lines, `stagewise_runs_total{state="done"} 1`) && !strings.Contains(body, "stagewise_run_info{") &&
			!strings.Contains(body, "stagewise_stage{"), "%s: after the run\n%s", role, strings.Join(lines, "\n"))
	}
}

// The names, units and types of metrics follow Prometheus' conventions, as its own linter has them.
func TestMetricsFollowConventions(t *testing.T) {
	for _, role := range []string{protocol.RoleIngest, protocol.RoleWork, protocol.RoleSolve, protocol.RoleRun, protocol.RoleScore} {
		m := newMetrics("p", role, clock)
		for _, e := range runEvents() {
			m.Record(e)
		}
		problems := assert.Must(testutil.GatherAndLint(m.registry))(t)
		for _, p := range problems {
			t.Errorf("%s: %s: %s", role, p.Metric, p.Text)
		}
		families := assert.Must(m.registry.Gather())(t)
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "stagewise_") { // those of Go and of the process are others'
				continue
			}
			for _, unit := range []string{"_percent", "_ms", "_milliseconds", "_kb", "_mb"} { // the linter takes percent
				assert.True(t, !strings.HasSuffix(f.GetName(), unit), "%s: %s is in no base unit", role, f.GetName())
			}
		}
	}
}

// A service that waits for brokers is alive but not ready.
func TestReady(t *testing.T) {
	m := newMetrics("p", protocol.RoleWork, clock)
	get := listened(t, m)
	expect := func(ready int, why string) {
		t.Helper()
		code, body := get("/ready")
		assert.True(t, code == ready && (why == "" || body == why), "ready: %d, %s; expected %d, %s", code, body, ready, why)
		code, _ = get("/live")
		assert.Equal(t, code, http.StatusOK, "live")
	}
	expect(http.StatusOK, "")
	m.Record(event.Waiting{What: "append to x[0]", Err: errors.New("no leader")})
	m.Record(event.Waiting{What: "append to w[1]", Err: errors.New("no leader")})
	expect(http.StatusServiceUnavailable, "waiting for brokers: append to w[1], append to x[0]\n")
	m.Record(event.Waiting{What: "append to x[0]", Over: true})
	m.Record(event.Waiting{What: "append to w[1]", Over: true})
	expect(http.StatusOK, "")
}

// A process that stands aside, or whose run makes no progress, is not ready, and /ready and the metrics say why.
func TestReadyTellsOfRuns(t *testing.T) {
	now := clock()
	for role, begins := range map[string]event.Event{
		protocol.RoleWork:  event.Visited{Run: "abc", Stage: wire.Survey, Partitions: []int{0}},
		protocol.RoleSolve: event.Solving{Run: "abc", Active: true},
	} {
		m := newMetrics("p", role, func() time.Time { return now })
		get := listened(t, m)
		expect := func(when, want string) {
			t.Helper()
			code, body := get("/ready")
			ready := code == http.StatusOK
			assert.True(t, ready == (want == "") && strings.Contains(body, want), "%s, %s: %d, %s", role, when, code, body)
		}
		m.Record(event.StoodAside{Run: "old", Why: "its arithmetic differs: numerics 1, this process has 2"})
		expect("standing aside", "standing aside for run old: its arithmetic differs: numerics 1, this process has 2")
		_, body := get("/metrics")
		assert.True(t, slices.Contains(samples(t, body), "stagewise_standing_aside 1"), "%s: no metric says that it stands aside", role)
		m.Record(event.StoodAside{Run: "old", Over: true})
		m.Record(event.Began{Run: "abc"})
		now = now.Add(2 * patience)
		expect("others work on the run", "")
		m.Record(begins)
		expect("at the first step", "")
		now = now.Add(patience)
		expect("without progress", "no progress: run abc waits for other processes, this one has been idle for 5m0s")
		m.Record(event.Progressed{Rows: 1, Of: 2})
		expect("after another step", "")
		now = now.Add(patience)
		m.Record(event.Ended{Run: "abc", State: schemas.Done})
		expect("between runs", "")
	}
}

// Services with one address share ten ports of a machine, whoever has chosen it. Who gets another than the first, or none, is told.
func TestListenOn(t *testing.T) {
	_, text, err := net.SplitHostPort(config.DefaultListen)
	assert.NoError(t, err)
	first := assert.Must(strconv.Atoi(text))(t)
	for range config.ListenPorts + 1 { // other processes may have some of the ports
		listener, taken, err := listenOn(config.DefaultListen)
		assert.NoError(t, err)
		if listener == nil {
			assert.True(t, strings.Contains(taken, "set metrics.listen"), "without a port: %q", taken)
			break
		}
		defer listener.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		assert.True(t, port >= first && port < first+config.ListenPorts && (taken == "") == (port == first) &&
			(taken == "" || strings.Contains(taken, listener.Addr().String())), "on %s, told %q", listener.Addr(), taken)
		configured := "127.0.0.1:" + strconv.Itoa(port)
		if other, taken, err := listenOn(configured); err != nil || other == nil && taken == "" {
			t.Errorf("a configured address that is taken: %v, told %q", err, taken)
		} else if other != nil {
			other.Close()
		}
	}
	listener, _, err := listenOn(config.DefaultListen)
	assert.True(t, err == nil && listener == nil, "after all ports are taken: %v, %v", listener, err)
	_, _, err = listenOn("192.0.2.1:9464")
	assert.True(t, errors.As(err, new(option.Problem)), "an address that this machine does not have: %v", err) // of no machine (RFC 5737)
}

// The log of a chain has a record for each version, with what was measured. What needs an operator is a warning.
func TestLogOfAChain(t *testing.T) {
	var stream bytes.Buffer
	l := NewLogs(slog.NewJSONHandler(&stream, nil), "p")
	e, loss := 2.5, 0.125
	l.Record(event.Retrained{Number: 1, RetrainReport: schemas.RetrainReport{Version: 1, Kind: schemas.RunFull, Rows: 1000,
		WindowRows: 1000, Offered: true, Seconds: 2}})
	l.Record(event.Retrained{Number: 2, RetrainReport: schemas.RetrainReport{
		Version: 2, Kind: schemas.RunUpdate, Rows: 500, WindowRows: 1500, Drift: true, Seconds: 0.5, UnknownRows: 9,
		Gate:             &schemas.GateReport{Weight: 50, Loss: 0.25, OfferedLoss: 0.125},
		PrequentialError: &e, PrequentialLoss: &loss, PrequentialLogLoss: &loss, PrequentialBrier: &loss, PrequentialECE: &loss,
		MostlyBad: &coverage.BadMessages{Messages: 3, Of: 4, Partition: 1, Offset: 7, Reason: "damaged"},
	}})
	var lines []map[string]any
	for text := range bytes.Lines(stream.Bytes()) {
		line := map[string]any{}
		assert.NoError(t, json.Unmarshal(text, &line))
		lines = append(lines, line)
	}
	assert.Need(t, len(lines) == 2 && lines[0]["level"] == "INFO" && lines[0]["msg"] == "retrained" && lines[0]["prequential_error"] == nil,
		"%v", lines)
	for key, want := range map[string]any{
		"level": "WARN", "version": 2.0, "kind": "update", "rows": 500.0, "offered": false, "drift": true, "seconds": 0.5,
		"unknown_rows": 9.0, "prequential_error": 2.5,
		"prequential_loss": 0.125, "prequential_log_loss": 0.125, "prequential_brier": 0.125, "prequential_ece": 0.125, "gate_loss": 0.25,
		"gate_offered_loss": 0.125,
		"bad_messages":      3.0, "of_messages": 4.0, "partition": 1.0, "offset": 7.0, "reason": "damaged",
	} {
		assert.Equal(t, lines[1][key], want, "%s", key)
	}
}

// serveRole serves the metrics of a role for one test.
func serveRole(t *testing.T, listener net.Listener, m *metrics, recorder event.Recorder) {
	t.Cleanup(serveMetrics(t.Context(), listener, m.registry, m.trouble, recorder))
}

// On a loopback address, only requests for this machine are answered.
func TestMetricsOfThisMachine(t *testing.T) {
	listener, _, err := listenOn("127.0.0.1:0")
	assert.NoError(t, err)
	serveRole(t, listener, newMetrics("p", protocol.RoleWork, clock), nil)
	for host, want := range map[string]int{"localhost:9464": http.StatusOK, "127.0.0.1:9464": http.StatusOK, "evil.example:9464": http.StatusMisdirectedRequest} {
		r := assert.Must(http.NewRequestWithContext(t.Context(), "GET", "http://"+listener.Addr().String()+"/metrics", nil))(t)
		r.Host = host
		response := assert.Must(http.DefaultClient.Do(r))(t)
		response.Body.Close()
		assert.Equal(t, response.StatusCode, want, "%s: %s", host, response.Status)
	}
}

// recorded records the notices.
type recorded chan string

func (r recorded) Record(e event.Event) {
	if e, ok := e.(event.Noticed); ok {
		r <- e.Text
	}
}

// broken is a metric whose collection fails.
type broken struct{ prometheus.Collector }

func (broken) Describe(chan<- *prometheus.Desc) {}

func (broken) Collect(c chan<- prometheus.Metric) {
	c <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "", nil, nil), io.ErrUnexpectedEOF)
}

// Errors of the server are notices, which are in the log like all others.
func TestErrorsOfTheMetricsServer(t *testing.T) {
	m := newMetrics("p", protocol.RoleWork, clock)
	m.registry.MustRegister(broken{})
	listener, _, err := listenOn("127.0.0.1:0")
	assert.NoError(t, err)
	notices := make(recorded, 1)
	serveRole(t, listener, m, notices.Record)
	response := assert.Must(http.Get("http://" + listener.Addr().String() + "/metrics"))(t)
	response.Body.Close()
	text := <-notices
	assert.True(t, strings.HasPrefix(text, "metrics: error gathering metrics") && !strings.Contains(text, "\n"), "%q", text)
}

var metricName = regexp.MustCompile(`\bstagewise_[a-z_]+`)

// A dashboard has something in each panel while nobody but run works: what other roles have is in rows that are folded.
func TestDashboardOfARunnerAlone(t *testing.T) {
	content := assert.Must(os.ReadFile("../../../deploy/monitoring/dashboard.json"))(t)
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Collapsed   bool
			Targets     []struct{ Expr string }
			Panels      []any
		}
	}
	assert.NoError(t, json.Unmarshal(content, &dashboard))
	m := newMetrics("p", protocol.RoleRun, clock)
	for _, e := range runEvents() {
		m.Record(e)
	}
	families := assert.Must(m.registry.Gather())(t)
	has := map[string]bool{}
	for _, f := range families {
		has[f.GetName()] = true
	}
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			assert.True(t, p.Collapsed && len(p.Panels) != 0, "the row %q is unfolded, or empty", p.Title)
			continue
		}
		filled := false
		for _, target := range p.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				filled = filled || has[name]
			}
		}
		assert.True(t, filled, "the panel %q is empty while run works alone", p.Title)
	}
}

// Alerts, dashboard and pages name metrics that some role has.
func TestMetricsThatAreNamedExist(t *testing.T) {
	var code strings.Builder
	for _, file := range []string{"metrics.go", "../../../serve/metrics.go", "../../../serve/topic.go"} {
		content := assert.Must(os.ReadFile(file))(t)
		code.Write(content)
	}
	for _, file := range []string{"deploy/monitoring/alerts.yaml", "deploy/monitoring/alerts_test.yaml",
		"deploy/monitoring/dashboard.json", "docs/operating.md", "docs/serving.md"} {
		content := assert.Must(os.ReadFile("../../../" + file))(t)
		for _, name := range metricName.FindAllString(string(content), -1) {
			plain := strings.TrimSuffix(strings.TrimPrefix(name, "stagewise_"), "_bucket")
			assert.True(t, strings.Contains(code.String(), `"`+plain+`"`), "%s: no role has the metric %s", file, name)
		}
	}
}
