package tabular

import "encoding/binary"

// AppendRows appends the encoding of rows of cells, without objects of JSON.
func AppendRows(to []byte, rows [][]Cell) []byte {
	to = binary.AppendUvarint(to, uint64(len(rows)))
	for _, row := range rows {
		to = appendCells(to, row)
	}
	return to
}

func appendCells(to []byte, cells []Cell) []byte {
	to = binary.AppendUvarint(to, uint64(len(cells)))
	for i := range cells {
		c := &cells[i]
		if to = append(to, byte(c.kind)); c.kind == cellList {
			to = appendCells(to, c.List())
			continue
		}
		to = binary.AppendUvarint(to, c.bits)
		to = append(binary.AppendUvarint(to, uint64(len(c.text))), c.text...)
	}
	return to
}

// ReadRows returns the rows that [AppendRows] has encoded.
func ReadRows(from []byte) [][]Cell {
	rows := [][]Cell{}
	for range number(&from) {
		rows = append(rows, readCells(&from))
	}
	return rows
}

func readCells(from *[]byte) []Cell {
	cells := make([]Cell, number(from))
	for i := range cells {
		c := &cells[i]
		c.kind, *from = cellKind((*from)[0]), (*from)[1:]
		if c.kind == cellList {
			*c = Items(readCells(from))
			continue
		}
		c.bits = number(from)
		n := number(from)
		c.text, *from = string((*from)[:n]), (*from)[n:]
	}
	return cells
}

func number(from *[]byte) uint64 {
	v, n := binary.Uvarint(*from)
	*from = (*from)[n:]
	return v
}
