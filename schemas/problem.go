package schemas

import "fmt"

// Problem is one value of a configuration that can't be, in the words of the
// code that it sets. Key is relative to that code's own keys.
type Problem struct{ Key, Value, Want string }

func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: expected %s", p.Key, p.Value, p.Want)
}
