package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Ask asks a process whether it works, at a URL of its /live or /ready. The error is its answer, unless that is 200, or why there is none.
func Ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	why, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	return errors.Join(fmt.Errorf("%s: %s: %s", url, answer.Status, strings.TrimSpace(string(why))), err)
}
