package sink

import "github.com/stagewise/stagewise/internal/kernel"

// Vote adds what a member predicts (n × k) to the votes (n × k): the sum of what the members before it predict. Members vote in their
// order.
func Vote(votes, prediction kernel.Dense) {
	mustMatch("columns of the votes", votes.Cols, prediction.Cols)
	for i, v := range prediction.Data {
		votes.Data[i] += v
	}
}

// Average writes the mean of what members predict into dst (n × k), given their votes (n × k).
func Average(dst, votes kernel.Dense, members int) {
	mustMatch("columns of the average", dst.Cols, votes.Cols)
	for i, v := range votes.Data {
		dst.Data[i] = v / float32(members)
	}
}
