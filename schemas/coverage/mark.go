package coverage

// Mark is the last message of a partition that a chain has processed. An offset alone does not identify a message: after
// a topic was truncated or recreated, another message may have the same offset.
type Mark struct {
	Partition int    `json:"partition"` // partition number
	Offset    int64  `json:"offset"`    // message offset
	Checksum  string `json:"checksum"`  // checksum of the value and timestamp: see MessageChecksum
}

// Marks returns the marks of a chain after a run that has processed more messages: for each partition the mark with the
// highest offset. Both lists, and the result, are in partition order with one mark per partition.
func Marks(before, more []Mark) (after []Mark) {
	for len(before) > 0 || len(more) > 0 {
		switch {
		case len(more) == 0 || len(before) > 0 && before[0].Partition < more[0].Partition:
			after, before = append(after, before[0]), before[1:]
		case len(before) == 0 || more[0].Partition < before[0].Partition:
			after, more = append(after, more[0]), more[1:]
		default:
			if before[0].Offset > more[0].Offset {
				more = append([]Mark{before[0]}, more[1:]...)
			}
			before = before[1:]
		}
	}
	return after
}
