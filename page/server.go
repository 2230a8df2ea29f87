package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagewise/stagewise/internal/endpoint"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/wire"
)

//go:embed browser
var browser embed.FS

// maxStreams is the maximum number of browsers that follow a page at the same time.
const maxStreams = 32

// policy lets the page have its own style sheet, program and events, and nothing else. No other page may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri " +
	"'none'; form-action 'none'; frame-ancestors 'none'"

// CheckListen returns an error if an address is not on the loopback interface: the page has no authentication.
func CheckListen(address string) error {
	if kafkalog.IsLoopback(address) {
		return nil
	}
	return errors.New("expected host:port on the loopback interface, such as 127.0.0.1:0, because the page has no authentication; from " +
		"another machine, reach it at port 8080 with ssh -L 8080:ADDRESS HOST")
}

// Server shows a board to browsers on this machine. [NewServer] makes servers.
type Server struct {
	board   *Board
	mux     *http.ServeMux
	streams atomic.Int64
}

// NewServer returns a server of a board.
func NewServer(board *Board) *Server {
	s := &Server{board: board, mux: http.NewServeMux()}
	page := template.Must(template.ParseFS(browser, "browser/page.html"))
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, board.State().Summary) // it is visible before the script runs, and without it; the browser may have disconnected
	})
	s.mux.HandleFunc("GET /state.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(wire.JSON(board.State()), '\n')) // as above
	})
	s.mux.HandleFunc("GET /events", s.events)
	for _, name := range []string{"chart.js", "page.js", "page.css", "icon.svg"} {
		s.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, browser, "browser/"+name) })
	}
	return s
}

// Serve answers on a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // errors of browsers are not logged
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	release := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer release()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// ServeHTTP answers a request for this machine.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := endpoint.CheckHost(r); err != nil {
		http.Error(w, err.Error(), http.StatusMisdirectedRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	s.mux.ServeHTTP(w, r)
}

// heartbeat is the time without a change after which a stream sends a comment, which detects browsers that have disconnected.
const heartbeat = 15 * time.Second

// events sends all sections, and then those that change: an event for each, with its JSON. A slow browser skips states, but always gets the
// newest.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		http.Error(w, fmt.Sprintf("%d browsers follow this page already", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	control, sent := http.NewResponseController(w), map[string][]byte{}
	for r.Context().Err() == nil {
		_, sections, changed := s.board.newest()
		var text bytes.Buffer
		for _, section := range sections {
			if !bytes.Equal(sent[section.name], section.json) {
				fmt.Fprintf(&text, "event: %s\ndata: %s\n\n", section.name, section.json)
				sent[section.name] = section.json
			}
		}
		if text.Len() > 0 {
			text.WriteString("event: whole\ndata: 1\n") // after the last section of a state, it is drawn
		}
		text.WriteString(":\n\n")
		if control.SetWriteDeadline(time.Now().Add(2*heartbeat)) != nil {
			return
		}
		if _, err := text.WriteTo(w); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-time.After(heartbeat):
		case <-r.Context().Done():
		}
	}
}

// Board holds the newest state for all browsers. The zero value is not usable: see [NewBoard].
type Board struct {
	mutex    sync.Mutex
	state    *State
	sections []section     // in the order in which browsers get them
	changed  chan struct{} // closed by the next state
}

// section is a part of the state as JSON.
type section struct {
	name string
	json []byte
}

// NewBoard returns a board with an empty state.
func NewBoard() *Board {
	b := &Board{changed: make(chan struct{})}
	b.Put(&State{
		Summary: Summary{Level: Notice, Verdict: "The topics are being read.", Needs: []Need{}, Facts: []Fact{}}, Topics: []Topic{},
		Versions: []Version{}, Staff: Staff{Hidden: []string{}, Members: map[string][]Worker{}},
		Quarantine: Quarantine{Reasons: []Reason{}, Recent: []BadMessage{}},
	})
	return b
}

// Put replaces the state. The caller must not change s afterwards.
func (b *Board) Put(s *State) {
	var sections []section
	for field, value := range reflect.ValueOf(*s).Fields() {
		sections = append(sections, section{field.Tag.Get("json"), wire.JSON(value.Interface())})
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	close(b.changed)
	b.state, b.sections, b.changed = s, sections, make(chan struct{})
}

// State returns the newest state. The caller must not change it.
func (b *Board) State() *State {
	s, _, _ := b.newest()
	return s
}

// newest returns the newest state, its sections, and a channel that is closed by the next state.
func (b *Board) newest() (*State, []section, <-chan struct{}) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.state, b.sections, b.changed
}
