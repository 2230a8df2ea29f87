package protocol

// Topics are the names of a pipeline's topics.
type Topics struct {
	Name                                                                                 string // of the pipeline
	Examples, Residuals, Statistics, Weights, Versions, State, Plans, Forget, Quarantine string

	Predictions string // written by score, unless another topic is configured
	Origins     string // of examples that expire, unless ingest does not make them from a topic
}

// TopicsOf returns the topics of the named pipeline.
func TopicsOf(name string) Topics {
	return Topics{
		Name: name, Examples: name + ".examples", Residuals: name + ".residuals", Statistics: name + ".statistics",
		Weights: name + ".weights", Versions: name + ".versions", State: name + ".state", Plans: name + ".plans",
		Forget: name + ".forget", Quarantine: name + ".quarantine", Predictions: name + ".predictions",
		Origins: name + ".origins",
	}
}

// The roles of processes, named after their commands.
const (
	RoleIngest = "ingest"
	RoleWork   = "work"
	RoleSolve  = "solve"
	RoleRun    = "run"
	RoleScore  = "score"
	RoleServe  = "serve"
)

// Workers returns the consumer group of the pipeline's workers.
func (t Topics) Workers() string { return t.Name + ".work" }

// Ingesters returns the consumer group of the processes that ingest a topic into the pipeline.
func (t Topics) Ingesters() string { return t.Name + ".ingest" }

// Scorers returns the consumer group of the processes that write predictions to the topic.
func (t Topics) Scorers() string { return t.Predictions }

// Servers returns the consumer group of the pipeline's servers. They share no partitions: the group makes them visible.
func (t Topics) Servers() string { return t.Name + ".serve" }

// Runners returns the consumer group of the processes that retrain the pipeline.
func (t Topics) Runners() string { return t.Name + ".run" }

// Solvers returns the consumer group of the pipeline's solvers.
func (t Topics) Solvers() string { return t.Name + ".solve" }

// StatisticsPartition returns the partition of the statistics topic for an examples partition. partitions is the number of
// partitions of the statistics topic.
func StatisticsPartition(partition, partitions int) int { return partition % partitions }
