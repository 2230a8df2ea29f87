package pipeline

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/mem"
)

// memoryBudget is how many bytes may be kept: as many as are asked for, or half
// of what the machine has free.
func memoryBudget(asked int64) (int64, error) {
	if asked > 0 {
		return asked, nil
	}
	machine, err := mem.VirtualMemory()
	if err != nil {
		return 0, fmt.Errorf("find how much memory is free (set memory): %w", err)
	}
	return int64(machine.Available / 2), nil
}
