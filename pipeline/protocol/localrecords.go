package protocol

import "github.com/stagewise/stagewise/schemas/wire"

// Records are the statistics of a visit of which nothing is sent: see [schemas.Update].
type Records struct {
	Doubles []*wire.Record[float64]
	Singles []*wire.Record[float32]
}
