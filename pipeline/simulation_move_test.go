package pipeline

// move is a kind of fault, or something else that must happen in a simulation. Its text says what happens.
type move string

const (
	kill         move = "an actor is killed"
	pause        move = "an actor pauses"
	reassignment move = "partitions are assigned again"
	expulsion    move = "a member is expelled from its group"
	compaction   move = "plans, versions and state are compacted"
	expiry       move = "messages expire"
	loss         move = "an acknowledged message is lost"
	quarantining move = "a message is put into quarantine"
	ingestion    move = "a source is ingested again"
	overtaking   move = "another run has the turn in a chain"
	lateSeal     move = "a source is sealed that a chain has passed over"
	forgetting   move = "rows are forgotten"
	joining      move = "a full run joins increments of a chain"
	warming      move = "a run starts from a version"
	truncation   move = "offsets are used again"
	remaking     move = "a topic is made anew"
	growth       move = "a topic gets another partition"
	abortion     move = "a transaction of examples is aborted"
	withholding  move = "a version is withheld"
	restarting   move = "an update drops what came before a change of the stream"
	spreading    move = "an added partition gets messages"
	stop         move = "a service that retrains is stopped"
	restaging    move = "the stages of a chain change"
	lostAnswer   move = "the answer to a write is lost"
	lateRequest  move = "a request arrives after later ones"
	refusal      move = "a write is refused"
	command      move = "an operator gives a command"
	order        move = "an operator's command changes something"
	denial       move = "the settings of topics are not told"
	setting      move = "a setting of a topic changes"
	archived     move = "examples expire that can be made again"
	aged         move = "examples are older than their retention"
	shortening   move = "a topic that is followed loses messages"
	choosing     move = "stages, or a preparation, are chosen"
	searching    move = "a run of a search ends"
	verification move = "a version is made again"
	unverified   move = "a version can't be made again, as examples are lost"
	renewal      move = "a topic that is followed is made anew"
	solving      move = "an update is planned that its solver visits"
	leaving      move = "a runner whose worker can't make a visit leaves the group of workers"
)

// moves are all of them. TestSimulation checks that each happens.
var moves = []move{kill, pause, reassignment, expulsion, compaction, expiry, loss, lostAnswer, lateRequest, refusal, quarantining,
	truncation, remaking, growth, ingestion, lateSeal, forgetting, joining, stop, restaging, spreading, abortion,
	withholding, restarting, warming, overtaking, command, order, denial, setting, aged, archived, shortening, renewal, verification,
	choosing, searching, unverified, solving, leaving}

// count counts a move.
func (l *simLog) count(m move) { l.moves[m]++ }

// happen counts a move, and traces it.
func (l *simLog) happen(m move, format string, values ...any) {
	l.count(m)
	l.trace(format, values...)
}

// addMoves adds the moves of another simulation.
func addMoves(sum, moves map[move]int) {
	for m, n := range moves {
		sum[m] += n
	}
}
