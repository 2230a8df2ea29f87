package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// cursor decodes a value (https://avro.apache.org/docs/1.12.0/specification/#binary-encoding). After an error it returns
// zeros.
type cursor struct {
	rest []byte
	err  error
}

var (
	errShort = errors.New("the value ends too early for its schema")
	errLong  = errors.New("a number of more than 64 bits")
)

// maxEmpty limits the zero-length items of an array.
const maxEmpty = 1 << 16

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.rest = nil
}

// next returns the next n bytes.
func (c *cursor) next(n int64) []byte {
	if n < 0 || n > int64(len(c.rest)) {
		c.fail(errShort)
		return nil
	}
	taken := c.rest[:n:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) long() int64 {
	if len(c.rest) > 0 && c.rest[0] < 0x80 {
		v := uint64(c.rest[0])
		c.rest = c.rest[1:]
		return int64(v>>1) ^ -int64(v&1)
	}
	v, n := binary.Varint(c.rest)
	switch {
	case n > 0:
		c.rest = c.rest[n:]
	case n == 0:
		c.fail(errShort)
	default:
		c.fail(errLong)
	}
	return v
}

func (c *cursor) float() float64 {
	if b := c.next(4); b != nil {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return 0
}

func (c *cursor) double() float64 {
	if b := c.next(8); b != nil {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) boolean() bool {
	b := c.next(1)
	if b == nil {
		return false
	}
	if b[0] > 1 {
		c.fail(fmt.Errorf("a boolean of %d", b[0]))
	}
	return b[0] == 1
}

func (c *cursor) bytes() []byte { return c.next(c.long()) }

// items calls item for each item of an array or a map, until an error.
func (c *cursor) items(item func()) {
	for {
		n, _ := c.block()
		if n == 0 {
			return
		}
		for range n {
			if item(); c.err != nil {
				return
			}
		}
	}
}

// passItems skips an array or a map.
func (c *cursor) passItems(item func()) {
	for {
		n, size := c.block()
		if n == 0 {
			return
		}
		if size >= 0 {
			c.next(size)
			continue
		}
		for range n {
			if item(); c.err != nil {
				return
			}
		}
	}
}

// block reads a block header, and returns its number of items and its length: -1 if not included.
func (c *cursor) block() (n, size int64) {
	n, size = c.long(), -1
	if n < 0 {
		n, size = -n, c.long()
	}
	if c.err != nil {
		return 0, 0
	}
	if n < 0 || n > int64(len(c.rest))+maxEmpty {
		c.fail(errShort)
		return 0, 0
	}
	return n, size
}
