package telemetry

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// serveRole serves the metrics of a role for one test.
func serveRole(t *testing.T, listener net.Listener, m *metrics, recorder event.Recorder) {
	t.Cleanup(serveMetrics(t.Context(), listener, m.registry, m.trouble, recorder))
}

// Clients that hold connections do not lock out a probe: the oldest idle connection is closed.
func TestProbeBesideIdleConnections(t *testing.T) {
	listener, _, err := listenOn("127.0.0.1:0")
	arrowtest.NoError(t, err)
	serveRole(t, listener, newMetrics("p", protocol.RoleWork, clock), event.Ignore{})
	dial := func(text string) net.Conn {
		conn := arrowtest.Must(net.Dial("tcp", listener.Addr().String()))(t)
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, text) // the server may have closed it
		return conn
	}
	first := dial("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if r, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	for i := range 2 * maxConnections {
		dial([]string{"", "GET /live HTTP/1.1\r\nHost", "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"}[i%3])
	}
	response := arrowtest.Must(http.Get("http://" + listener.Addr().String() + "/live"))(t)
	response.Body.Close()
	if n, err := io.Copy(io.Discard, first); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the oldest idle connection: %d bytes, %v", n, err)
	}
}

// On a loopback address, only requests for this machine are answered.
func TestMetricsOfThisMachine(t *testing.T) {
	listener, _, err := listenOn("127.0.0.1:0")
	arrowtest.NoError(t, err)
	serveRole(t, listener, newMetrics("p", protocol.RoleWork, clock), event.Ignore{})
	for host, want := range map[string]int{"localhost:9464": http.StatusOK, "127.0.0.1:9464": http.StatusOK, "evil.example:9464": http.StatusMisdirectedRequest} {
		r := arrowtest.Must(http.NewRequestWithContext(t.Context(), "GET", "http://"+listener.Addr().String()+"/metrics", nil))(t)
		r.Host = host
		response := arrowtest.Must(http.DefaultClient.Do(r))(t)
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", host, response.Status)
		}
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
	arrowtest.NoError(t, err)
	notices := make(recorded, 1)
	serveRole(t, listener, m, notices)
	response := arrowtest.Must(http.Get("http://" + listener.Addr().String() + "/metrics"))(t)
	response.Body.Close()
	if text := <-notices; !strings.HasPrefix(text, "metrics: error gathering metrics") || strings.Contains(text, "\n") {
		t.Errorf("%q", text)
	}
}
