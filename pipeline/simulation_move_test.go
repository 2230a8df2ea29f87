package pipeline

// move is a kind of fault. Its text says what happens.
type move string

const (
	kill         move = "an actor is killed"
	pause        move = "an actor pauses"
	reassignment move = "partitions are assigned again"
	compaction   move = "plans and versions are compacted"
	expiry       move = "messages expire"
	loss         move = "an acknowledged message is lost"
	lostAnswer   move = "the answer to a write is lost"
	lateRequest  move = "a request arrives after later ones"
)

// moves are all of them. TestSimulation checks that each happens.
var moves = []move{kill, pause, reassignment, compaction, expiry, loss, lostAnswer, lateRequest}

// count notes that a move has happened.
func (l *simLog) count(m move) { l.moves[m]++ }

// addMoves adds the moves of another simulation.
func addMoves(sum, moves map[move]int) {
	for m, n := range moves {
		sum[m] += n
	}
}
