package topics

import "github.com/stagewise/stagewise/config/option"

// Bytes is an amount of memory in bytes. A configuration has it as a number, or as a number with a decimal (512MB) or
// binary (1GiB) unit.
type Bytes = option.Bytes
