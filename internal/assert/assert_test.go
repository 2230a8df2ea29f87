package assert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
)

// reports counts the errors that a test reports.
type reports struct {
	testing.TB
	n int
}

func (r *reports) Errorf(string, ...any) { r.n++ }
func (r *reports) Fatalf(string, ...any) { r.n++ }

// Each check reports what is not as it should be, and nothing else.
func TestChecks(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", errors.Join(io.EOF, &fs.PathError{Op: "open", Path: "a", Err: fs.ErrExist}))
	for name, test := range map[string]struct {
		check func(testing.TB)
		want  int
	}{
		"its parts": {func(t testing.TB) { Fails(t, wrapped, "read: ", io.EOF, new(*fs.PathError), fs.ErrExist) }, 0},
		"others":    {func(t testing.TB) { Fails(t, wrapped, "write", io.ErrNoProgress, new(*errorValue), "") }, 4},
		"a value":   {func(t testing.TB) { MustFail(0, error(errorValue{}))(t, new(errorValue), errorValue{}, "a value") }, 0},
		"no error":  {func(t testing.TB) { MustFail(0, error(nil))(t, "", nil, "a", io.EOF, new(errorValue)) }, 3},
		"equal": {func(t testing.TB) {
			Equal(t, 3, 3, "n")
			Equal(t, []int{1}, []int{1}, "list")
			Equal(t, nil, []int{}, "nothing")
		}, 0},
		"different": {func(t testing.TB) {
			Equal(t, 3, 4, "n")
			Equal(t, []int{1}, []int{2}, "list")
			Equal(t, nil, []int{0}, "a zero")
		}, 3},
		"conditions":      {func(t testing.TB) { True(t, 1 < 2, "%d", 1); True(t, 2 < 1, "%d", 2) }, 1},
		"needs":           {func(t testing.TB) { Need(t, 1 < 2, "%d", 1); Need(t, 2 < 1, "%d", 2) }, 1},
		"different kinds": {func(t testing.TB) { Equal[any](t, int64(3), 3, "n") }, 1},
	} {
		r := &reports{TB: t}
		if test.check(r); r.n != test.want {
			t.Errorf("%s: %d errors are reported, expected %d", name, r.n, test.want)
		}
	}
}

type errorValue struct{}

func (errorValue) Error() string { return "a value" }
