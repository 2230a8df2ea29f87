package topics

import "github.com/stagewise/stagewise/internal/option"

// Bytes is a size in bytes. In the configuration it is a number, or a number with a decimal (512MB) or binary (1GiB) unit.
type Bytes = option.Bytes
