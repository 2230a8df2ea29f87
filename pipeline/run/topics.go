package run

// Topics are the names of a pipeline's topics.
type Topics struct {
	Name                                                                                 string // of the pipeline
	Examples, Residuals, Statistics, Weights, Versions, State, Plans, Forget, Quarantine string

	Predictions string // that score makes, unless it is told another topic
}

// TopicsOf returns the topics of the pipeline of that name.
func TopicsOf(name string) Topics {
	return Topics{
		Name: name, Examples: name + ".examples", Residuals: name + ".residuals", Statistics: name + ".statistics",
		Weights: name + ".weights", Versions: name + ".versions", State: name + ".state", Plans: name + ".plans",
		Forget: name + ".forget", Quarantine: name + ".quarantine", Predictions: name + ".predictions",
	}
}

// Workers returns the consumer group of the pipeline's workers.
func (t Topics) Workers() string { return t.Name + ".work" }

// Runners returns the consumer group of the processes that retrain the pipeline.
func (t Topics) Runners() string { return t.Name + ".run" }

// Solvers returns the consumer group of the pipeline's solvers.
func (t Topics) Solvers() string { return t.Name + ".solve" }

// StatisticsPartition returns the partition of the statistics topic for the statistics of a partition of the examples.
// partitions is how many partitions the statistics topic has.
func StatisticsPartition(partition, partitions int) int { return partition % partitions }
