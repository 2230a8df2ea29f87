package worker_test

import (
	"fmt"

	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
)

// A visit that read other rows than the survey ends the run: the topic has changed under it.
func ExampleCoverageError() {
	survey, visit := schemas.Coverage{}, schemas.Coverage{}
	survey.Count(1024, 1)
	visit.Count(1000, 2)
	fmt.Println(&worker.CoverageError{Got: visit, Want: survey})
	// Output: 1000 rows in 1 messages (checksum 0000000000000002), the survey had 1024 in 1 (0000000000000001)
}
