package serve

import (
	"context"
	"errors"
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
