package protocol

// Topics are the names of a pipeline's topics.
type Topics struct {
	Name                                                                                 string // of the pipeline
	Examples, Residuals, Statistics, Weights, Versions, State, Plans, Forget, Quarantine string

	Predictions string // written by score, unless another topic is configured
	Origins     string // of examples that expire, if ingest makes them from a topic
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

// Group returns the consumer group of the processes of a role. That of scorers is named after the topic that they write to. Servers
// share no partitions; their group only makes them visible.
func (t Topics) Group(role string) string {
	if role == RoleScore {
		return t.Predictions
	}
	return t.Name + "." + role
}

// StatisticsPartition returns the partition of the statistics topic for an examples partition. partitions is the number of
// partitions of the statistics topic.
func StatisticsPartition(partition, partitions int) int { return partition % partitions }
