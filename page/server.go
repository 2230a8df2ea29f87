package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
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
	page    *template.Template
	streams atomic.Int64
	ending  context.Context
}

// NewServer returns a server of a board.
func NewServer(board *Board) *Server {
	files, err := fs.Sub(browser, "browser")
	if err != nil {
		panic(err) // the folder is a part of the program
	}
	s := &Server{board: board, mux: http.NewServeMux(), page: template.Must(template.ParseFS(files, "page.html")),
		ending: context.Background()}
	s.mux.HandleFunc("GET /{$}", s.show)
	s.mux.HandleFunc("GET /events", s.events)
	s.mux.HandleFunc("GET /state.json", s.state)
	for name, kind := range map[string]string{
		"chart.js": "text/javascript", "page.js": "text/javascript", "page.css": "text/css", "icon.svg": "image/svg+xml",
	} {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err) // as above
		}
		s.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			_, _ = w.Write(content) // the browser may have disconnected
		})
	}
	return s
}

// Serve answers on a listener until ctx ends. It returns when all answers have ended.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.ending = ctx
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // errors of browsers are not logged
	}
	release := context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(patience) != nil {
			_ = server.Close()
		}
	})
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

// show answers with the page. It includes the summary, which is visible before its script runs, and without it.
func (s *Server) show(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	if err := s.page.Execute(&page, s.board.State().Summary); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = page.WriteTo(w) // the browser may have disconnected
}

// state answers with the state as one document.
func (s *Server) state(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(wire.JSON(s.board.State()), '\n')) // the browser may have disconnected
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
	control := http.NewResponseController(w)
	for number := int64(0); ; {
		sections, newest, changed := s.board.after(number)
		number = newest
		if control.SetWriteDeadline(time.Now().Add(2*heartbeat)) != nil {
			return
		}
		for _, section := range sections {
			if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", section.name, section.json); err != nil {
				return
			}
		}
		if len(sections) > 0 {
			// After the last section of a state, it is drawn.
			if _, err := io.WriteString(w, "event: whole\ndata: 1\n\n"); err != nil {
				return
			}
		} else if _, err := io.WriteString(w, ":\n\n"); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		timer := time.NewTimer(heartbeat)
		select {
		case <-changed:
		case <-timer.C:
		case <-r.Context().Done():
		case <-s.ending.Done():
		}
		timer.Stop()
		if r.Context().Err() != nil || s.ending.Err() != nil {
			return
		}
	}
}

// Board holds the newest state for all browsers. The zero value is not usable: see [NewBoard].
type Board struct {
	mutex    sync.Mutex
	state    *State
	sections []section // in the order in which browsers get them
	number   int64     // of the newest change
	changed  chan struct{}
}

// section is a part of the state as JSON.
type section struct {
	name   string
	json   []byte
	number int64 // of the change that made it
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
	state := reflect.ValueOf(*s)
	sections := make([]section, state.NumField())
	for i := range sections {
		sections[i] = section{name: state.Type().Field(i).Tag.Get("json"), json: wire.JSON(state.Field(i).Interface())}
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	any := false
	for i := range sections {
		if b.state != nil && bytes.Equal(sections[i].json, b.sections[i].json) {
			sections[i].number = b.sections[i].number
			continue
		}
		sections[i].number, any = b.number+1, true
	}
	b.state, b.sections = s, sections
	if any {
		b.number++
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// State returns the newest state. The caller must not change it.
func (b *Board) State() *State {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.state
}

// after returns the sections that have changed after a change, the number of the newest change, and a channel that is closed at the next.
func (b *Board) after(number int64) (sections []section, newest int64, changed <-chan struct{}) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, s := range b.sections {
		if s.number > number {
			sections = append(sections, s)
		}
	}
	return sections, b.number, b.changed
}
