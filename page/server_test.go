package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
)

// get asks a server for a path, as a browser that was given a name of the machine.
func get(s *Server, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestOnlyThisMachineIsAnswered(t *testing.T) {
	s := NewServer(NewBoard())
	for host, want := range map[string]int{
		"127.0.0.1:8475": http.StatusOK, "localhost": http.StatusOK, "[::1]:8475": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "evil.example:8475": http.StatusMisdirectedRequest,
		"localhost.evil.example": http.StatusMisdirectedRequest, "10.0.0.1:8475": http.StatusMisdirectedRequest,
	} {
		assert.Equal(t, get(s, host, "/").Code, want, "%s", host)
	}
	for address, loopback := range map[string]bool{"127.0.0.1:0": true, "localhost:80": true, "0.0.0.0:80": false, ":80": false,
		"10.0.0.1:80": false, "127.0.0.1": false} {
		err := CheckListen(address)
		assert.True(t, (err == nil) == loopback, "%s: %v", address, err)
	}
}

// All that the page is made of comes from the server, with a policy that forbids the rest, and nothing can be written.
func TestPolicy(t *testing.T) {
	board := NewBoard()
	board.Put(simulated(t, 3, 1, 0))
	s := NewServer(board)
	for path, kind := range map[string]string{"/": "text/html", "/page.js": "text/javascript", "/chart.js": "text/javascript", "/page.css": "text/css",
		"/icon.svg": "image/svg+xml", "/state.json": "application/json"} {
		w := get(s, "localhost", path)
		assert.True(t, w.Code == http.StatusOK && strings.HasPrefix(w.Header().Get("Content-Type"), kind) &&
			w.Header().Get("Content-Security-Policy") == policy, "%s: %d %v", path, w.Code, w.Header())
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		r := httptest.NewRequest(method, "/", nil)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		assert.Equal(t, w.Code, http.StatusMethodNotAllowed, "%s", method)
	}
	outside := regexp.MustCompile(`https?://[^"'\s]+`)
	err := fs.WalkDir(browser, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(browser, name)
		for _, url := range outside.FindAllString(string(content), -1) {
			assert.Equal(t, url, "http://www.w3.org/2000/svg", "%s names", name) // a name
		}
		for _, unsafe := range []string{"innerHTML", "insertAdjacentHTML", "eval(", " style=", "onclick="} {
			assert.True(t, !strings.Contains(string(content), unsafe), "%s has %s", name, unsafe)
		}
		return err
	})
	assert.NoError(t, err)
}

// The page says what matters before its program has run, escaped.
func TestSummaryIsInThePage(t *testing.T) {
	board, state := NewBoard(), simulated(t, 3, 1, 0)
	state.Summary.Needs = append(state.Summary.Needs, Need{Trouble, "<script>alert(1)</script>", aboutRun})
	board.Put(state)
	text := get(NewServer(board), "localhost", "/").Body.String()
	for _, want := range []string{state.Summary.Verdict, state.Summary.Facts[2].Answer, "&lt;script&gt;alert(1)"} {
		assert.True(t, strings.Contains(text, want), "the page lacks %q", want)
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		assert.True(t, !ids[m[1]], "two elements have the id %s", m[1])
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?:href="#|aria-labelledby=")([^"]+)"`).FindAllStringSubmatch(text, -1) {
		assert.True(t, ids[m[1]], "nothing has the id %s", m[1])
	}
	for _, about := range []string{aboutFlow, aboutRun, aboutError, aboutVersions, aboutStaff, aboutQuarantine} {
		assert.True(t, ids[about], "no part of the page has the id %s", about)
	}
	// that of the confusion matrix comes with it
	tables, captions := strings.Count(text, "<table"), strings.Count(text, "<caption")
	assert.True(t, tables-captions == 1, "%d tables have %d captions", tables, captions)
}

// stream follows the events of a server until the test ends.
func stream(t *testing.T, url string) (next func() (event, data string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request := assert.Must(http.NewRequestWithContext(ctx, http.MethodGet, url+"events", nil))(t)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	response := assert.Must(client.Do(request))(t)
	t.Cleanup(func() { _ = response.Body.Close() })
	assert.Need(t, response.StatusCode == http.StatusOK, "%v", response.Status)
	lines := bufio.NewReader(response.Body)
	return func() (event, data string) {
		for {
			line := assert.Must(lines.ReadString('\n'))(t)
			switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
			case name == "event":
				event = value
			case name == "data":
				data = value
			case line == "\n" && event != "":
				return event, data
			}
		}
	}
}

// serving serves a board until the test ends, and returns the URL of its page.
func serving(t *testing.T, board *Board) string {
	t.Helper()
	listener := assert.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- NewServer(board).Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		assert.Fails(t, <-ended, nil)
	})
	return "http://" + listener.Addr().String() + "/"
}

// A browser gets all sections, and then those that change.
func TestEvents(t *testing.T) {
	board := NewBoard()
	state := simulated(t, 3, 1, 0)
	board.Put(state)
	next := stream(t, serving(t, board))
	var first []string
	for {
		event, data := next()
		if event == "whole" {
			break
		}
		assert.True(t, json.Valid([]byte(data)), "%s is %s", event, data)
		first = append(first, event)
	}
	assert.Equal(t, strings.Join(first, " "), "summary topics run versions quality staff quarantine", "got the sections")
	same := *state
	board.Put(&same) // changes nothing, so it sends nothing
	changed := *state
	changed.Quarantine.Held = 77
	board.Put(&changed)
	event, data := next()
	assert.True(t, event == "quarantine" && strings.Contains(data, `"held":77`), "got %s %s", event, data)
}

func TestStreamsAreBounded(t *testing.T) {
	url := serving(t, NewBoard())
	for range maxStreams {
		stream(t, url)
	}
	response := assert.Must(http.Get(url + "events"))(t)
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	assert.Equal(t, response.StatusCode, http.StatusServiceUnavailable, "%s: %s", response.Status, text)
}

// Texts and marks stand out from what is behind them, in light and dark, as WCAG 2.2 asks: 4.5 for text (AA), 3 for marks.
func TestContrast(t *testing.T) {
	light, dark, found := strings.Cut(string(assert.Must(fs.ReadFile(browser, "browser/page.css"))(t)), "@media (prefers-color-scheme: dark)")
	assert.Need(t, found, "the style sheet has no dark scheme")
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		colours, hex := map[string]float64{}, map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6})`).FindAllStringSubmatch(text, -1) {
			colours[m[1]], hex[m[1]] = luminance(rgb(m[2])), m[2]
		}
		assert.Need(t, len(colours) == 12, "%s has %d colours, expected 12", scheme, len(colours))
		for _, shade := range []string{"accent", "second"} { // of the confusion matrix, at its darkest
			var mixed [3]float64
			for i, c := range rgb(hex[shade]) {
				mixed[i] = 0.38*c + 0.62*rgb(hex["panel"])[i]
			}
			ratio := contrast(colours["text"], luminance(mixed))
			assert.True(t, ratio >= 4.5, "%s: text on a cell of %s has a contrast of %.2f, expected at least 4.5", scheme, shade, ratio)
		}
		for _, behind := range []string{"ground", "panel", "shade"} {
			for _, before := range []string{"text", "muted", "accent", "second", "third", "good", "notice", "trouble"} {
				ratio := contrast(colours[before], colours[behind])
				assert.True(t, ratio >= 4.5, "%s: %s on %s has a contrast of %.2f, expected at least 4.5", scheme, before, behind, ratio)
			}
		}
	}
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

// rgb returns the parts of a colour in hexadecimal digits, from 0 to 1.
func rgb(hex string) (parts [3]float64) {
	for i := range parts {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			panic(fmt.Sprint(hex, err)) // the pattern has six digits
		}
		parts[i] = float64(n) / 255
	}
	return parts
}

// luminance returns the relative luminance of a colour, as WCAG defines it.
func luminance(parts [3]float64) (sum float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := parts[i]
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// simulated returns the state of a chain of so many versions that so many workers with ten partitions each work on: testdata/state.json,
// whose times are milliseconds before now, with the versions and the workers. number is that of the state: each adds a version, and goes
// on with the run.
func simulated(t testing.TB, versions, workers, number int) *State {
	t.Helper()
	s := &State{}
	assert.NoError(t, json.Unmarshal(assert.Must(os.ReadFile("testdata/state.json"))(t), s))
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	ago := func(seconds int) int64 { return now.Add(-time.Duration(seconds) * time.Second).UnixMilli() }
	value := func(v float64) *float64 { return &v }
	for i := range s.Topics {
		if s.Topics[i].Held += int64(number); i < 4 {
			s.Topics[i].Partitions = max(10*workers, 4)
		}
	}
	for i := range s.Quarantine.Reasons {
		s.Quarantine.Reasons[i].Last += now.UnixMilli()
	}
	for i := range s.Quarantine.Recent {
		s.Quarantine.Recent[i].At += now.UnixMilli()
	}
	for n := 1; n <= versions+number; n++ {
		drift := n == 640
		level := 4.5*math.Exp(-float64(n)/60) + 2.4
		if since := n - 640; since >= 0 {
			level += 14 * math.Exp(-float64(since)/20)
		}
		v := Version{
			Run: fmt.Sprintf("%012x", random.Uint64()>>16), Written: ago(30 * (versions + number - n)), Parent: fmt.Sprint(n - 1),
			RetrainReport: schemas.RetrainReport{Version: n, Kind: schemas.RunUpdate, Rows: 4096,
				PrequentialError: value(level * (0.9 + 0.2*random.Float64())), HoldoutError: value(level * (0.85 + 0.2*random.Float64())),
				Offered: n%97 != 0 && (n < 640 || n > 646), Drift: drift, Seconds: 1.2},
			TrainError: value(level * 0.6), Digest: fmt.Sprintf("%012x", random.Uint64()>>16),
		}
		if n%100 == 1 {
			v.Kind, v.PrequentialError, v.Rows = schemas.RunFull, nil, 0
		}
		s.Versions = append(s.Versions, v)
	}
	s.Versions[len(s.Versions)-1].Latest, s.Versions[len(s.Versions)-1].Offered = true, true
	s.Run.Waits, s.Run.Visit = fmt.Sprintf("for workers to visit 12 of %d partitions", 10*workers), number
	s.Run.Of, s.Run.Have, s.Run.News = 10*workers, 10*workers-12, s.Run.News+now.UnixMilli()
	s.Run.Stages[3].Passes = s.Run.Stages[3].Passes[:5+number%4]
	s.Quality.Version = versions + number
	for w := range workers {
		worker := Worker{ID: fmt.Sprintf("%08x", random.Uint32()), Host: fmt.Sprintf("10.0.%d.%d", w/50, w%50+10),
			Waits: "waits for other workers"}
		for p := range 10 {
			worker.Partitions = append(worker.Partitions, 10*w+p)
		}
		if w < 2 {
			worker.Waits = fmt.Sprintf("works on visit %d of stage 4 of 6: %d of 10 partitions are published", number+1, number%10)
		}
		s.Staff.Members["work"] = append(s.Staff.Members["work"], worker)
	}
	s.Summary = summaryOf(s)
	return s
}

// summaryOf is the summary of a simulated state, which no reader has read.
func summaryOf(s *State) Summary {
	r := &reader{options: Options{Name: "clicks", Brokers: "Kafka at 10.0.0.1:9092"}}
	for _, v := range s.Versions {
		r.places = append(r.places, schemas.Place{Run: v.Run, Version: v.Version})
		if v.Latest {
			r.offered = v.Run
		}
	}
	m := Summary{Pipeline: r.options.Name, Brokers: r.options.Brokers, Facts: []Fact{behind(s), errorOf(s), r.offeredOf(s), underWay(s)}}
	m.needsOfVersions(s)
	m.Needs = append(m.Needs, Need{Notice, "2 messages could not be used in the last hour. Most common reason: " +
		s.Quarantine.Reasons[0].Reason + ".", aboutQuarantine})
	m.judge(s)
	return m
}
