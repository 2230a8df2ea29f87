package examples

import (
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// Template returns the value of an examples message with the columns of another one, given its value, and without rows. An
// error wraps [wire.ErrDamaged].
func Template(value []byte, mem memory.Allocator) ([]byte, error) {
	record, err := stream.Decode(value, mem, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	defer record.Release()
	b := array.NewRecordBuilder(mem, record.Schema())
	defer b.Release()
	none := b.NewRecord()
	defer none.Release()
	return Encode(none, mem)
}
