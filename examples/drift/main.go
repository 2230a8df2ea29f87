// Command drift makes a stream that changes: it reads the labels of MNIST, an IDX file, and writes them with those of the second half
// permuted. A model of the stream has to relearn the second half.
//
//	drift train-labels-idx1-ubyte > drifting-labels-idx1-ubyte
package main

import (
	"encoding/binary"
	"fmt"
	"os"
)

func main() {
	if err := drift(); err != nil {
		fmt.Fprintln(os.Stderr, "drift:", err)
		os.Exit(1)
	}
}

func drift() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("expected the name of a file of labels")
	}
	file, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	const header = 8 // 0, 0, the type of the values, the number of dimensions; and the number of labels
	if len(file) < header || binary.BigEndian.Uint32(file) != 0x0801 || int(binary.BigEndian.Uint32(file[4:])) != len(file)-header {
		return fmt.Errorf("%s: expected an IDX file of labels, not compressed", os.Args[1])
	}
	labels := file[header:]
	maximum := byte(0)
	for _, label := range labels {
		maximum = max(maximum, label)
	}
	for i := len(labels) / 2; i < len(labels); i++ {
		labels[i] = (labels[i] + 1) % (maximum + 1)
	}
	_, err = os.Stdout.Write(file)
	return err
}
