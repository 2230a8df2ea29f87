//go:build noblas || !(linux || darwin) || !(amd64 || arm64)

package kernel

import (
	"errors"
	"fmt"
)

const canOpen = false

func openBest() *BLAS { return nil }

func openChoice(string) (*BLAS, error) {
	return nil, fmt.Errorf("opening a library is %w by this build", errors.ErrUnsupported)
}
