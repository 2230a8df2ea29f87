package serve

import (
	"fmt"
	"net/http"
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

// unusable rejects a body with a reason.
func unusable(err error) error { return refuse(http.StatusBadRequest, "%s", err) }
