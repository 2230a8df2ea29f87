package schemas

import (
	"github.com/stagewise/stagewise/schemas/prediction"
	"github.com/stagewise/stagewise/schemas/residuals"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// layout documents one kind of message. The tests make the tables of FORMAT.md from the layouts, and check that the goldens
// have everything that the layouts name, and nothing else.
type layout struct {
	kind           wire.Kind
	topic          string // without the pipeline's name
	key            string // of a message; empty for records, whose keys share one pattern
	writer, reader string // the roles that write and read it
	says           string // JSON: what the message says, in a few words
	value          any    // JSON: the zero value of its type
	tensors        []part // records only
	notes          []part // records only
}

// part documents one tensor or note of a record.
type part struct {
	name string
	text string // Markdown: its shape and meaning
}

// layouts returns the layout of every kind, in the order of FORMAT.md. A test fails if a kind is missing.
func layouts() []layout {
	return []layout{
		{kind: kindExamples, topic: "examples", key: "SOURCE/SEQUENCE", writer: "ingest, any producer", reader: "worker"},
		{kind: residuals.Kind, topic: "residuals", key: "RUN/residuals/STAGE/0/PARTITION/OFFSET/ROW", writer: "worker", reader: "worker"},
		{
			kind: statistics.KindVisit, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{
				{statistics.FieldSplits, "[3, 4]: for each split Σw, rows, Σw of wrong rows, Σw·loss"}, {statistics.FieldCross, "[p, k]: Σ w x rᵀ"},
				{statistics.FieldTrace, "[1]: Σ w \\|x\\|² of all rows over the penalised columns, if the Gram matrix sums only a sample of the rows"},
				{statistics.FieldOverflow, "[1]: rows whose inputs or features overflow, in visit 0 of a stage; absent if there are none"},
				{statistics.FieldForgotten, "[m], chain: how many rows are forgotten: in the survey of each increment of a full run, or of the new one of an update [1]; in visits of an update of each increment that is visited, 0 for the new one; absent if there are none"},
				{statistics.FieldTerms, "[m, 2, p, k], update: for each increment that is visited and that the partition has Σ w x (xᵀV)ᵀ at the stage's weights V, and Σ w x (y − g)ᵀ; in a visit before the last pass [1, 2, p, k], their sum over the increments, each times its weight"},
				{statistics.FieldVisited, "[m, 5], update: for each of them its place among those that are visited, Σw and Σw·loss of its training rows, and the same of the rows that the gate is about"},
				{statistics.FieldOffered, "[2], survey of a chain: Σw and Σw·loss; of a plan with targets [1 + k]: Σw, and Σ w e²/2 of each number; of the version that subscribers have, of the rows of the newest increment that the gate is about"},
				{FieldOfferedGroups, "[64, 2], as `offered`, of a plan with targets [64, 1 + k]: the same by group. The group of a row is Hash(offset, row) mod 64"},
				{FieldJudgedGroups, "[64, 2], last stage of a run of a chain: Σw and Σw·loss of the rows that the gate is about, by group, with the weights of the visit"},
				{FieldRevisitedGroups, "[64, 3], last stage of an update, in its visit with the final weights: Σw, and Σw·loss of the version that subscribers have and of the one that the run makes, of the rows that the gate is about in increments that are visited again, by group; absent if there are none, or if the two versions have not one preparation"},
				{statistics.FieldQuality, "[3, 2], survey of an update: how the version before predicts the rows"}, {statistics.FieldBins, "[3, 15, 3], as that"}, {statistics.FieldConfusion, "[3, k, k], as that"},
				{"served", "[n, 4], survey of an update whose examples say what was served: of each version that answered for training rows its number, Σw, rows, and Σw of the rows with another label"},
				{"messages", "[n, 5], survey of an update: offset, Σw, rows, Σw of wrong rows, Σw·loss of the training rows of each message"},
				{"increments", "text, survey of a full run of a chain: what counts of each increment, as JSON"},
				{statistics.FieldWords, "[m, 256, k+1], visit −1 of a stage of the kind `trees`: of each code of each column of words Σ w r and Σ w h, h the mean curvature of the loss in a row's scores"},
				{statistics.FieldDiagonal, "[p], sparse rows: Σ w x² of each column, in visit 0 of a stage"},
				{statistics.FieldBounds, "[p], sparse rows: Σ w \\|x\\| \\|row\\|₁ of each column, in visit 0 of a stage; less the Gram matrix, this diagonal matrix has no negative eigenvalue"},
				{statistics.FieldBlock, "[m, 2], stage of the kind `gradient`: Σ w x xᵀ over the n−1 inputs that the visit's weights name in `block`, and the intercept: of each value that is not 0 its place in the form of `gram`, from 0, ascending, and the value. `cross` is then [n, k], of the same. Without an intercept they are n"},
				{statistics.FieldCounts, "[p, k], stage of the kind `class_counts`, in visit 0: Σ w x yᵀ"},
				{statistics.FieldTrials, "[42, 3], as that, in visit 1: for each weight that is tried Σw, Σw of wrong rows and Σw·loss of the holdout rows. The weights are 0 and 2^((i−32)/2), i from 0 to 40"},
				{statistics.FieldGradient, "[m, 1+k], update on sparse rows: of each column of the block that occurs, ascending, its number and Σ w x (y − g)ᵀ. A block has the inputs, and then the intercept if the stage has one"},
				{statistics.FieldCurvature, "[m, 1+k], as that, in visit 0 and from visit `passes` on: Σ w x² h of the same columns, h being the second derivative of the loss in each score"},
				{statistics.FieldReach, "[m, 2], as that, in visit 0: Σ w \\|x\\| \\|row\\|₁"},
				{statistics.FieldSizes, "[2], survey of an update with `update.rows`: over segments, how many values of training rows are not 0, and in how many columns they are"},
				{statistics.FieldCounted, "[m, 1+k], as that, stage of the kind `class_counts`: Σ w x yᵀ"},
				{"column_rows", "[n, 2], survey of sparse rows: a column, and in how many training rows it is not 0, in the order of the columns; in an update of columns that the version before does not have; otherwise empty with `warm`"},
				{statistics.FieldResidual, "[2]: Σ w \\|r\\|² and Σ w² of the training rows, in visit 0 of a stage whose ridge is auto"},
				{statistics.FieldSums, "[d], survey without `warm`"}, {statistics.FieldSquares, "[d], survey without `warm`"}, {statistics.FieldPresent, "[d], survey without `warm`"},
				{"shift", "[d], survey: the point that sums and squares are taken about"}, {statistics.FieldLabels, "text, survey"}, {statistics.FieldTargets, "[3, k], survey of a plan with targets, without `warm`: Σw, Σ w y and Σ w y² of the numbers y of the training rows, less the target shift"}, {"target_shift", "[k], as that: the point that they are taken about; absent: 0"},
				{statistics.FieldDistances, "[3, k, 4], survey of an update with targets: for each split and number Σ w e², Σ w\\|e\\|, Σ w y and Σ w y² of standardised numbers y, and e = y − prediction"},
				{statistics.FieldHits, "[3, 100, 2, k], survey of an update of several labels: for each split Σw of rows by the hundredth of a label's probability, and whether they lack the label or have it"},
				{statistics.FieldSubset, "[3, 101], as that: Σw of rows whose labels are all right from a threshold on, less those from it on no longer"}, {statistics.FieldRanks, "[3, 3], as that: Σ w·(the part of the 1, 3 and 5 most probable labels that the row has)"},
				{statistics.FieldClasses, "[3, 4, k], survey of an update of one label a row, at most 724 classes: for each split and class how many rows are of it, Σw of them, Σw of the rows that are predicted to be of it, and Σw of those of which that is right"},
				{statistics.FieldRanking, "[m, 2], as that, at most 100 classes: histograms of the probability of each class; of two classes of the second. Of each value that is not 0 its place in [3, k, 38·n+2, 2], and the value: for each split, class and bin Σw of the rows that are not of the class, and of those that are. n is 256 for two classes, 64 for at most ten, 16 for more. A bin is an n-th of a halving of the probability, or, from 1/2 on, of what it lacks of 1, from 2⁻²⁰ to 1/2; the first and the last are of what is beyond"},
				{statistics.FieldDecided, "[3, 2, 2], as that, two classes and a threshold that is a number: for each split and true class Σw of the rows by whether they are given the second class"},
				{statistics.FieldCalibrated, "[2], several labels: Σ w\\|y\\|² and Σw of the holdout rows that a calibration is fitted to"},
				{statistics.FieldLabelRows, "[n], survey without `warm`: how many training rows each of these labels has"}, {"columns", "text, survey: the columns that the features are of, as JSON; absent if not known"},
				{statistics.TensorCovered, "text, survey of merged partitions: what the sums cover of each, in order, as JSON"},
			},
			notes: []part{{"covered", "what the sums cover"}, {"spans", "merged partitions: the digest of the spans that the sums cover"}, {"quarantined", "survey: messages in quarantine"},
				{"passed_over", "survey: messages and rows that do not count, by the reason, as JSON"}, {"image", "survey: height, width and channels of the images, as JSON; absent if the examples are none"}, {"skipped", "survey of a chain: the spans of messages that do not count, as JSON"}, {"progress", "survey of a chain: how far sources are counted in the partition, as JSON"}, {"unknown", "survey of a chain: the rows of each label that is no class, as JSON"}, {"untrained", "survey: the rows of each label of which the partition has holdout and test rows alone, as JSON; absent if there are none"}, {"bad", "survey of a chain: how many messages of the newest increment can't be used, of how many, and the first, as JSON"}},
		},
		{
			kind: statistics.KindGram, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldGram, "[p(p+1)/2]: Σ w x xᵀ, its lower triangle row by row; absent if no row is part " +
				"of it. float32 for a block, float64 for the survey, a calibration and merged partitions. The survey of a plan with `warm` has none. Those " +
				"of an update name the result of the survey as `parent`, as they depend on no weights"}},
			notes: []part{{"weight", "block: Σw of the rows that it sums"}},
		},
		{
			kind: statistics.KindLeave, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldGram, "[p(p+1)/2]: as in `gram`, of the rows that leave the window, times the weights " +
				"of their increments, and of forgotten rows that the version before has learnt; absent if there are none"}},
			notes: []part{{"weight", "Σw of the forgotten rows, times the weights of their increments; absent if it is 0"}},
		},
		{
			kind: statistics.KindRows, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldRowBatches, "[b, 3], of each message with rows: its partition, the number of its segment there, and how many rows it has"},
				{statistics.FieldRowFacts, "[n, 5], of each row: how many values are not 0, class (−1: not known), weight, weight if it is fitted, split (0 train, 1 holdout, 2 test)"},
				{statistics.FieldRowValues, "[z, 2], of each of these values: the column of the block, ascending in a row, and the value; rows without a label or a weight, and forgotten ones, have none"},
				{statistics.FieldRowScores, "[n, k], stages after the first: the scores before the stage, by the weights of the version before"},
				{statistics.FieldRowTargets, "[n, k], several labels: 1 for each label of the row"},
				{statistics.FieldOverflow, "[1]: as in `visit`"}},
			notes: []part{{"covered", "what the rows are of"}, {"spans", "merged partitions: as in `visit`"}},
		},
		{
			kind: statistics.KindSample, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldSample, "[n, d]: raw rows of the survey of a plan without `warm`, a missing value as NaN; [n, c+k+1], visit −1 of a stage of the kind `trees`: of training rows the codes of c columns, k residuals and the weight"},
				{statistics.FieldDraws, "text: each row's hash, 16 hexadecimal digits"}},
		},
		{
			kind: statistics.KindIncrement, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldTerms, "[2, p, k], full run of a chain: Σ w x (xᵀV)ᵀ at the stage's final weights " +
				"V, and Σ w x (y − g)ᵀ, of the increment at place `visit` among those of the plan, and of those that the run " +
				"merges with it, if their weights are the same. The partition's seal comes after all of them"},
				{statistics.FieldOccurring, "[m, 1+k], sparse rows, in place of that: of each column of the block that occurs its number and Σ w x² h at the final weights, or, in a stage of the kind `class_counts`, Σ w x yᵀ"}},
		},
		{
			kind: statistics.KindSeal, topic: "statistics", writer: "worker", reader: "worker, solver",
			tensors: []part{
				{statistics.FieldSplits, "[3, 4]: as in `visit`, of the stage's final predictions"}, {statistics.FieldQuality, "[3, 2]"},
				{statistics.FieldBins, "[3, 15, 3]"}, {statistics.FieldDistances, "[3, k, 4], plan with targets, in place of these two: as in `visit`"},
				{statistics.FieldHits, "[3, 100, 2, k], last stage, several labels: as in `visit`"}, {statistics.FieldSubset, "[3, 101], as that"}, {statistics.FieldRanks, "[3, 3], as that"}, {statistics.FieldConfusion, "[3, k, k], absent with very many classes"},
				{statistics.FieldClasses, "[3, 4, k], last stage, one label a row: as in `visit`"}, {statistics.FieldRanking, "[m, 2], as that"}, {statistics.FieldDecided, "[3, 2, 2], as that"},
				{statistics.FieldTerms, "[m, 2, p, k], chain: what records of the kind `increment` have now; releases that had none of these wrote it, and solvers refuse it"}, {statistics.FieldVisited, "[m, 5], chain: as in `visit`, for each increment of the window that the partition has"}, {FieldJudgedGroups, "[64, 2], chain: as in `visit`"},
				{statistics.PartAverage + "/FIELD", "last stage of a member, of a plan that averages: `splits`, `quality` and the others once more, of the mean of what the members so far predict"},
				{"sealed", "text, merged partitions: of each in order its `partition`, `from`, `to`, `rows`, `scores` and `covered`, as JSON. The copy of its seal behind its residuals has no sums"},
			},
			notes: []part{
				{"covered", "what the sums cover"}, {"spans", "merged partitions: as in `visit`"}, {"from", "first offset on the residuals topic"}, {"to", "the offset after the last"}, {"rows", "rows of these messages"},
				{"scores", "digest of the scores and votes"}, {"attempt", "of the residuals messages that count"},
			},
		},
		{
			kind: statistics.KindPrepare, topic: "weights", writer: "solver", reader: "worker, subscribers",
			tensors: []part{
				{statistics.TensorFactors, "[d], sparse rows: the factor of each column; 0: it is left out. There is then neither basis nor spread, and centre and scale are of the numbers of mixed rows, which are the first columns; absent without"},
				{statistics.TensorFactorColumns, "[m, 2], sparse rows of a chain, in place of `factors`: the columns that have a factor, ascending, each as a and b of 4096·a + b"},
				{statistics.TensorFactorValues, "[m], with that: their factors"},
				{statistics.TensorCenter, "[d]: the mean of each scaled feature"}, {statistics.TensorScale, "[d]: the factor of each centred feature; 0 for a constant feature"},
				{statistics.TensorBasis, "[d, m]: principal directions; absent without PCA"}, {statistics.TensorSpread, "[1]: the median squared distance between inputs"},
				{statistics.TensorTargetCenter, "[k], plan with targets: the mean of each number"}, {statistics.TensorTargetRest, "[k], plan with targets: what `target_center`, being float32, leaves of the mean, which is the sum of both in float64; absent: 0"}, {statistics.TensorTargetScale, "[k], plan with targets: its standard deviation; 1 if it does not change. Scores and predictions of stages are of standardised numbers"},
				{statistics.TensorClassWeight, "[k]: by what the weights of training rows of each class are multiplied; absent: by 1"},
				{statistics.TensorImage, "[3]: height, width and channels of the images; absent if the examples are none"},
				{statistics.TensorWhitening + "/STAGE", "[q, q], `patches`: the whitening of patches of q values"}, {statistics.TensorOffset + "/STAGE", "[q], `patches`: the whitened mean"},
				{statistics.TensorFilters + "/STAGE", "[q, f], `patches`: the filters, one a column"}, {statistics.TensorContrast + "/STAGE", "[1], `patches`: what is added to the variance of a patch"},
				{statistics.TensorMean + "/STAGE", "[p], `patches`: the mean of each pooled response"}, {statistics.TensorFactor + "/STAGE", "[p], `patches`: the factor of each centred pooled response"},
				{statistics.TensorKnotCounts, "[d], scale ranks: how many knots each feature has; 0: its numbers stay"}, {statistics.TensorKnots, "[e, 2], as that: the knots of all features, each a number and its normal score; the numbers of a feature ascend"}, {statistics.TensorMissing, "[q, 3], as that: a feature that may be missing, and the mean and the factor of the input that says it is"},
				{statistics.TensorBins, "[c, 2], plan with trees: of each column of the table how many features it is, 1 if it has numbers, and how many edges it has"}, {statistics.TensorEdges, "[e], as that: the edges of all columns, ascending in each. The code of a number is 0 if it is missing, and else 1 and the number of edges that are less. That of a word is 1 and its place among the categories, at most 254; 0 if it is none of these"},
				{statistics.TensorLabels, "text: the classes"}, {statistics.TensorCovered, "text: the coverage of each span of the plan, as JSON"},
				{"columns", "text: the columns that the features are of, as JSON; absent if not known"},
				{"increments", "text, full run of a chain: the increments and what counts of each, as JSON"},
			},
			notes: []part{{"rows", "labelled rows of train, holdout and test"}, {"quarantined", "messages in quarantine"},
				{"passed_over", "messages that do not count, by the reason, as JSON"}, {"skipped", "chain: the spans of messages that do not count, as JSON"},
				{"sends", "update on sparse rows: `rows`, if workers send records of that kind in place of `visit` 0 to each stage; absent otherwise"}},
		},
		{
			kind: KindWeights, topic: "weights", writer: "solver", reader: "worker, subscribers",
			tensors: []part{{statistics.TensorW, "[p, k]; absent, in a stage of the kind `gradient`, if few weights are others than " +
				"those of the visit before"}, {statistics.TensorCalibration, "[bk, k], learnt links: from the b powers of predictions of the stage's basis to predictions"},
				{statistics.TensorBlock, "[n, 2], stage of the kind `gradient`: the inputs whose gradient and Gram matrix the visit sums, ascending, each as a and b of 4096·a + b"}, {statistics.TensorChanged, "[n, 2], as that, without `W`: the inputs whose weights change, in the form of `block`; absent if none do"}, {statistics.TensorChange, "[n+1, k], with `changed`: what is added to the weights of these inputs, and then to those of the intercept if there is one. Each weight is that of the visit before, plus this, in float32"},
				{statistics.TensorOccurring, "[m, 2], update on sparse rows, without `W`: the columns of the block that occur, in the form of `block`"}, {statistics.TensorRows, "[m, k], with that: their weights. All others are those of the version before; of inputs that it does not have 0"}, {statistics.TensorShift, "[k], with that, stage of the kind `class_counts`: what is added to the weights of all other inputs, in float32. Versions have all weights"}, {statistics.TensorCounts, "[p, k], full run of a chain, stage of the kind `class_counts`, with `final`: what `W` was made of"}},
			notes: []part{
				{noteFinal, "if the record ends a stage: the visit that measured the loss of these weights"},
				{notePasses, "with `final`: how many passes of Algorithm 2 count; 0 unless the link is learnt"},
				{noteRidge, "the ridge of the stage, if it is auto in the plan"},
				{"weight", "with `final`, stage of the kind `class_counts`: by what the logarithms are multiplied"},
				{notePass, "how the pass went that the visit before has ended, as JSON: an entry of `by_pass` of the report; absent if it has ended none"},
			},
		},
		{
			kind: KindStructure, topic: "weights", writer: "solver", reader: "worker, subscribers",
			tensors: []part{{statistics.TensorTreeSizes, "[T], stage of the kind `trees`: the number of nodes of each tree, which has one leaf more. Leaf i of tree t is feature t·leaves + i"},
				{statistics.TensorTreeOrders, "[o]: the column of each order that nodes compare"}, {statistics.TensorTreeRanks, "[256·r]: of each of the last r orders, which are of words, the ranks of the codes. In other orders the rank is the code"},
				{statistics.TensorTreeCompared, "[n]: of all nodes, tree after tree and each in preorder, the order that it compares"}, {statistics.TensorTreeCuts, "[n]: a row of a rank up to this goes left"}, {statistics.TensorTreeLefts, "[n]: how many nodes the left side has. Leaves are numbered from left to right"}},
		},
		{
			kind: KindReport, topic: "weights", key: "report/RUN/DIGEST/CHUNK", writer: "solver", reader: "followers of a run",
			says: "how a run that is done went. A version has it too, on `versions`", value: Report{},
		},
		{
			kind: KindPlan, topic: "plans", key: "plan/RUN/DIGEST/CHUNK", writer: "submitters", reader: "all",
			says: "a run", value: Plan{},
		},
		{
			kind: KindEnd, topic: "plans", key: "end/RUN/ATTEMPT", writer: "solver, submitters", reader: "all",
			says: "`state`: `done`, `failed` or `cancelled`, and why. Of several ends, `done` outranks `cancelled`, and `cancelled` " +
				"outranks `failed`",
			value: End{},
		},
		{
			kind: KindStage, topic: "weights", key: "stage/RUN/STAGE", writer: "solver", reader: "followers of a run",
			says: "passes, seconds, errors and losses of a finished stage", value: StageReport{},
		},
		{
			kind: KindSource, topic: "plans", key: "source/ID/ATTEMPT", writer: "ingest", reader: "planner",
			says: "an ingested source is complete: messages, rows, spans", value: SourceSeal{},
		},
		{
			kind: KindClaim, topic: "statistics", key: "RUN/claim", writer: "worker", reader: "solver",
			says: "a worker surveys examples of a run, so that the run is not given up", value: Claim{},
		},
		{
			kind: KindFailure, topic: "statistics", key: "RUN/failure/PARTITIONS", writer: "worker", reader: "solver",
			says: "why a partition's examples or residuals end the run", value: Failure{},
		},
		{
			kind: KindManifest, topic: "versions", key: "manifest/RUN/DIGEST/CHUNK", writer: "solver", reader: "subscribers",
			says: "a version is complete: plan, labels, digests, metrics", value: Manifest{},
		},
		{
			kind: KindRemoval, topic: "plans", key: "removal/RUN", writer: "solver, submitters", reader: "all",
			says: "the version of a run was removed", value: Removal{},
		},
		{
			kind: KindPin, topic: "plans", key: PinKey, writer: "submitters", reader: "all",
			says: "which version subscribers get as the latest, or that none is pinned. The last counts", value: Pin{},
		},
		{
			kind: KindForget, topic: "forget", key: "forget/DIGEST", writer: "submitters", reader: "planner",
			says: "rows that no run learns that is planned later, of a source if they are all of its rows", value: Forget{},
		},
		{
			kind: KindSourceRemoval, topic: "plans", key: "source/ID/ATTEMPT", writer: "submitters", reader: "planner",
			says: "an ingested source was removed: its messages do not count. " +
				"Of a seal and a removal with the same key, the later one counts", value: SourceRemoval{},
		},
		{
			kind: KindDivision, topic: "plans", key: "division/TOPIC/ATTEMPT/WRITER", writer: "submitters", reader: "submitters",
			says: "to how many partitions of the examples a topic goes that ingest follows. Of an attempt the first counts", value: Division{},
		},
		{
			kind: KindLedger, topic: "plans", key: "ledger//DIGEST/CHUNK", writer: "solver", reader: "all",
			says: "what the messages before an offset say, as far as it still counts", value: Ledger{},
		},
		{
			kind: statistics.KindTerms, topic: "state", writer: "solver", reader: "solver",
			tensors: []part{{statistics.FieldTerms, "[2, p, k]: Σ w x (xᵀV)ᵀ and Σ w x (g − y)ᵀ of the increment at place " +
				"`visit` among those that the run visited"}, {statistics.FieldOccurring, "[m, 1+k], sparse rows, in place of that: as in `increment` at weight 1, rounded to multiples of the grid; columns are those of the examples, and that of the intercept is 67108864"}},
		},
		{
			kind: statistics.KindMoments, topic: "state", writer: "solver", reader: "solver",
			tensors: []part{{statistics.FieldTerms,
				"[2, p, k]: the sums over the window of the terms of its increments, times their weights"}, {statistics.FieldGram,
				"[p(p+1)/2]: Σ w x xᵀ of the window; most records have none"},
				{statistics.FieldSummed, "[2], full run on sparse rows, in place of these: what the sum of curvature of each input begins at, and the power of 2 that terms are multiples of. The sums over the window follow from the terms"}},
			notes: []part{{"curvature", "that the run has met along its steps"}},
		},
		{
			kind: KindWindow, topic: "state", key: "window/RUN/DIGEST/CHUNK", writer: "solver", reader: "solver, planner",
			says: "what the next run of a chain goes on from", value: Window{},
		},
		{kind: prediction.Kind, topic: "predictions", key: "TOPIC/PARTITION/OFFSET/ROW", writer: "scorer", reader: "scorer, anybody"},
		{kind: KindQuarantine, topic: "quarantine", key: "TOPIC/PARTITION/OFFSET", writer: "worker", reader: "people, workers"},
	}
}
