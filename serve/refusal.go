package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"strings"
)

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
