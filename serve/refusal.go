package serve

import (
	"fmt"
	"net/http"
)

// refusal is an answer that says why there is no other.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(status int, format string, values ...any) error {
	return &refusal{status, fmt.Sprintf(format, values...)}
}

// unusable refuses a body for a reason.
func unusable(err error) error { return refuse(http.StatusBadRequest, "%s", err) }
