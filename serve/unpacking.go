package serve

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/stagewise/stagewise/ingest/input"
)

// unpacking is the memory for the rows of a request while they are predicted, beyond that of the workspace. It is reserved
// before the rows are read. A request that holds a core does not wait for it: it gives the core back, waits, and begins again.
type unpacking struct {
	*Server
	rows   input.Unpacked // of Arrow so far
	needed int64          // so far
	held   int64
}

// shortageError means that the rows need more memory than is free.
type shortageError struct{ bytes int64 }

func (e *shortageError) Error() string { return fmt.Sprintf("the rows need %d bytes", e.bytes) }

// begin restarts the count for another attempt to read the rows.
func (u *unpacking) begin() { u.rows, u.needed = input.Unpacked{}, 0 }

// need reserves memory for a total number of bytes. The error is a *shortageError if there is not enough at the moment.
func (u *unpacking) need(bytes int64) error {
	u.needed = max(u.needed, bytes)
	missing := u.needed - workspaceBytes - u.held
	switch {
	case missing <= 0:
		return nil
	case u.held+missing > u.memory.unpacked.size:
		return refuse(http.StatusRequestEntityTooLarge, "the rows take %d bytes when unpacked, and at most %d of serve.memory are for that: "+
			"send fewer rows or values at a time", bytes, u.memory.unpacked.size)
	case !u.memory.unpacked.TryAcquire(missing):
		return &shortageError{bytes}
	}
	u.held += missing
	return nil
}

// wait reserves the memory of a shortage, without a core.
func (u *unpacking) wait(ctx context.Context, e *shortageError) error {
	missing := e.bytes - workspaceBytes - u.held
	if !u.reserve(ctx, u.memory.unpacked, missing) {
		return u.full()
	}
	u.held += missing
	return nil
}

// release releases the memory.
func (u *unpacking) release() {
	u.memory.unpacked.discard(u.held)
	u.held = 0
}

const (
	valueBytes = 8  // of a value of a sparse row: its index and itself
	wordBytes  = 64 // of a column of a text: in the map, in two lists and in the row
)

// ofValues returns the memory for values of sparse rows, and for those of them that the model uses.
func ofValues(v *version, n int64) int64 {
	return valueBytes*n + 2*valueBytes*min(n, int64(v.Width()))
}

// ofTexts returns the memory for texts of n bytes: copies, and their words.
func ofTexts(v *version, n int64) int64 {
	return 3*n + wordBytes*min(int64(v.options.Words.Columns), int64(v.options.Words.Phrases)*(n/2+1))
}

// ofJSON returns the memory that the rows of a JSON body take at most, and the maximum number of values of sparse rows. The
// memory for dense rows is that of the workspace.
func ofJSON(v *version, body []byte) (need int64, values int) {
	switch {
	case !v.Sparse():
		return 0, 0
	case v.options.Text != "" || v.options.Mixed():
		return ofTexts(v, int64(len(body))), 0
	}
	values = bytes.Count(body, []byte{','}) + 1
	return ofValues(v, int64(values)), values
}

// ofArrow reserves memory for rows of an Arrow stream. They may unpack to as many bytes as a request may have.
func (u *unpacking) ofArrow(v *version, add input.Unpacked) error {
	rows, most := &u.rows, int(u.options.MaxBody)
	rows.Buffers, rows.Texts, rows.Values = rows.Buffers+add.Buffers, rows.Texts+add.Texts, rows.Values+add.Values
	if rows.Buffers > most || rows.Texts > most {
		return refuse(http.StatusRequestEntityTooLarge, "the rows have more than %d bytes when unpacked: send fewer at a time", most)
	}
	need := int64(rows.Buffers) + 5*ofValues(v, int64(rows.Values)) // as read, as a block of twice the size, as examples and as a tile
	if v.options.Text != "" || v.options.Mixed() {
		need += ofTexts(v, int64(rows.Texts))
	}
	return u.need(need)
}
