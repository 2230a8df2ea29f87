package serve

import (
	"fmt"
	"net/http"
	"path"
	"runtime"
	"strings"
)

// shapeOf describes a request without its contents, and where the program panicked.
func shapeOf(r *http.Request) string {
	h := r.Header
	text := fmt.Sprintf("%.20s %.40q of %d bytes, Content-Type %.80q, Content-Encoding %.40q, Accept %.80q, %s", r.Method, r.URL.Path,
		r.ContentLength,
		h.Get("Content-Type"), h.Get("Content-Encoding"), h.Get("Accept"), r.Proto)
	return text + failedAt()
}

// failedAt returns the innermost functions of this module in the current panic.
func failedAt() (at string) {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	thrown := false
	for n, more := 0, true; more && n < 3; {
		var f runtime.Frame
		f, more = frames.Next()
		if thrown && strings.Contains(f.Function, "stagewise") {
			at += fmt.Sprintf(", at %s:%d", path.Join(path.Base(path.Dir(f.File)), path.Base(f.File)), f.Line)
			n++
		}
		thrown = thrown || f.Function == "runtime.gopanic"
	}
	return at
}
