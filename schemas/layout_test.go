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
				{statistics.FieldOverflow, "[1], visit 0 of a stage: number of rows whose inputs or features overflow; absent if there are none"},
				{statistics.FieldForgotten, "[m], chain: number of forgotten rows. In the survey of a full run: of each increment; in the survey of an update: of the new increment [1]; in visits of an update: of each visited increment, 0 for the new one. Absent if there are none"},
				{statistics.FieldTerms, "[m, 2, p, k], update: for each visited increment that the partition has, Σ w x (xᵀV)ᵀ at the stage's weights V, and Σ w x (y − g)ᵀ. In a visit before the last pass, [1, 2, p, k]: their sum over the increments, each multiplied by its weight"},
				{statistics.FieldVisited, "[m, 5], update: for each of these increments, its index among the visited increments, Σw and Σw·loss of its training rows, and Σw and Σw·loss of its gate rows (the rows that the gate compares)"},
				{statistics.FieldOffered, "[2], survey of a chain: Σw and Σw·loss of the offered version on the gate rows of the newest increment; with targets [1 + k]: Σw, and Σ w e²/2 of each target"},
				{FieldOfferedGroups, "[64, 2], survey of a chain: `offered` by group; with targets [64, 1 + k]. The group of a row is Hash(offset, row) mod 64. With class weights there is one for each label of gate rows instead, `offered_groups/LABEL`"},
				{FieldJudgedGroups, "[64, 2], last stage of a run of a chain: Σw and Σw·loss of the gate rows by group, with the weights of the visit. w includes the class weight"},
				{FieldRevisitedGroups, "[64, 3], last stage of an update, in the visit with the final weights: for the gate rows in revisited increments, by group, Σw, and Σw·loss of the offered version and of the run's version. w includes the class weight. Absent if there are none, or if the two versions have different preparations"},
				{statistics.FieldQuality, "[3, 2], survey of an update: quality of the previous version's predictions"}, {statistics.FieldBins, "[3, 15, 3], survey of an update"}, {statistics.FieldConfusion, "[3, k, k], survey of an update"},
				{"served", "[n, 4], survey of an update whose examples have served labels: for each partition and version that answered its training rows, the version's number, Σw, rows, and Σw of the rows with another label"},
				{"messages", "[n, 5], survey of an update: for each partition and message, its offset, and Σw, rows, Σw of wrong rows and Σw·loss of its training rows"},
				{"chained", "text, survey of a chain: for each partition in order, as JSON, `skipped`: spans of messages that are not included, `progress`: how far sources are counted, `increments`, in a full run: accepted messages of each increment, `messages` and `served`: its numbers of rows of these tensors"},
				{statistics.FieldWords, "[m, 256, k+1], visit −1 of a `trees` stage: for each code of each categorical column, Σ w r and Σ w h, where h is the mean curvature of the loss in the scores of a row"},
				{statistics.FieldDiagonal, "[p], sparse rows, visit 0 of a stage: Σ w x² of each column"},
				{statistics.FieldBounds, "[p], sparse rows, visit 0 of a stage: Σ w \\|x\\| \\|row\\|₁ of each column. This diagonal matrix minus the Gram matrix has no negative eigenvalue"},
				{statistics.FieldBlock, "[m, 2], `gradient` stage: the nonzero values of Σ w x xᵀ over the n−1 inputs listed in `block` of the visit's weights, and the intercept. Each row is an index in the form of `gram`, from 0, ascending, and the value. `cross` is then [n, k], for the same columns. Without an intercept there are n inputs"},
				{statistics.FieldCounts, "[p, k], `class_counts` stage, visit 0: Σ w x yᵀ"},
				{statistics.FieldTrials, "[42, 3], `class_counts` stage, visit 1: for each candidate weight, Σw, Σw of wrong rows and Σw·loss of the holdout rows. The candidates are 0 and 2^((i−32)/2), i from 0 to 40"},
				{statistics.FieldGradient, "[m, 1+k], update on sparse rows: for each column of the block that occurs, ascending, its number and Σ w x (y − g)ᵀ. A block has the inputs, and then the intercept if the stage has one"},
				{statistics.FieldCurvature, "[m, 1+k], update on sparse rows, visit 0 and from visit `passes` on: Σ w x² h of the same columns, where h is the second derivative of the loss in each score"},
				{statistics.FieldReach, "[m, 2], update on sparse rows, visit 0: Σ w \\|x\\| \\|row\\|₁"},
				{statistics.FieldSizes, "[2], survey of an update with `update.rows`: the number of nonzero values of training rows, and the number of columns that have any, both summed over segments"},
				{statistics.FieldCounted, "[m, 1+k], update on sparse rows, `class_counts` stage: Σ w x yᵀ"},
				{"column_rows", "[n, 2], survey of sparse rows: a column, and the number of training rows in which it is nonzero, in column order. An update lists only columns that the previous version does not have; otherwise empty with `warm`"},
				{statistics.FieldResidual, "[2], visit 0 of a stage with `ridge: auto`: Σ w \\|r\\|² and Σ w² of the training rows"},
				{statistics.FieldSums, "[d], survey without `warm`"}, {statistics.FieldSquares, "[d], survey without `warm`"}, {statistics.FieldPresent, "[d], survey without `warm`"},
				{"shift", "[d], survey: the origin of `sums` and `squares`"}, {statistics.FieldLabels, "text, survey"}, {statistics.FieldTargets, "[3, k], survey of a plan with targets, without `warm`: Σw, Σ w y and Σ w y² of the targets y of the training rows, minus `target_shift`"}, {"target_shift", "[k], survey of a plan with targets, without `warm`: the origin of these sums; absent: 0"},
				{statistics.FieldDistances, "[3, k, 4], survey of an update with targets: for each split and target, Σ w e², Σ w\\|e\\|, Σ w y and Σ w y² of standardised targets y, where e = y − prediction"},
				{statistics.FieldHits, "[3, 100, 2, k], survey of a multi-label update: for each split and hundredth of a label's probability, Σw of the rows without the label and of the rows with it"},
				{statistics.FieldSubset, "[3, 101], survey of a multi-label update: for each split and threshold, Σw of the rows whose predicted labels become all right at the threshold, minus Σw of the rows whose labels stop being all right"}, {statistics.FieldRanks, "[3, 3], survey of a multi-label update: Σ w·(fraction of the 1, 3 and 5 most probable labels that the row has)"},
				{statistics.FieldClasses, "[3, 4, k], survey of a single-label update, at most 724 classes: for each split and class, its number of rows, their Σw, Σw of the rows predicted as the class, and Σw of those that are predicted correctly"},
				{statistics.FieldRanking, "[m, 2], survey of a single-label update, at most 100 classes: histograms of the probability of each class, or of the second of two classes. Each row is the index of a nonzero value in [3, k, 38·n+2, 2], and the value: for each split, class and bin, Σw of the rows of other classes and of the rows of the class. n is 256 for two classes, 64 for at most ten, 16 for more. A bin is an n-th of a halving of the probability or, from 1/2 on, of 1 minus the probability, from 2⁻²⁰ to 1/2; the first and the last bin take what is beyond"},
				{statistics.FieldDecided, "[3, 2, 2], survey of a single-label update with two classes and a numeric threshold: for each split and true class, Σw of the rows by whether the second class is predicted"},
				{statistics.FieldCalibrated, "[2], multi-label: Σ w\\|y\\|² and Σw of the holdout rows that a calibration is fitted to"},
				{statistics.FieldLabelRows, "[n], survey without `warm`: number of training rows of each label"}, {"columns", "text, survey: table columns of the features, as JSON; absent if unknown"},
				{"unknown", "text, survey of a chain: labels that are not classes, in order; absent if there are none"}, {"unknown_rows", "[n]: number of rows of each of them"},
				{"untrained", "text, survey: labels that the partition has only in holdout and test rows, in order; absent if there are none"}, {"untrained_rows", "[n]: number of rows of each of them"},
				{statistics.TensorCovered, "text, survey of merged partitions: coverage of the sums, by partition in order, as JSON"},
			},
			notes: []part{{"covered", "coverage of the sums"}, {"spans", "merged partitions: digest of the spans that the sums cover"}, {"quarantined", "survey: number of quarantined messages"},
				{"passed_over", "survey: messages and rows left out, by reason, as JSON"}, {"image", "survey: height, width and channels of the images, as JSON; absent without images"}, {"progress", "survey of a chain: `chained`, which releases reject that read progress here"}, {"bad", "survey of a chain: number of unusable messages of the newest increment, number of all its messages, and the first unusable one, as JSON"}},
		},
		{
			kind: statistics.KindGram, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldGram, "[p(p+1)/2]: Σ w x xᵀ, its lower triangle row by row; absent if no row is part of it. float32 for a block; float64 for the survey, a calibration and merged partitions. The survey of a plan with `warm` has none. In an update, `parent` is the digest of the survey result, because the matrix does not depend on weights"}},
			notes:   []part{{"weight", "block: Σw of the summed rows"}},
		},
		{
			kind: statistics.KindLeave, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldGram, "[p(p+1)/2]: as in `gram`, of the rows that leave the window, multiplied by the weights of their increments, and of forgotten rows that the previous version was trained on; absent if there are none"}},
			notes:   []part{{"weight", "Σw of the forgotten rows, multiplied by the weights of their increments; absent if 0"}},
		},
		{
			kind: statistics.KindGramRows, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldGramBatches, "[b, 4]: for each message with rows, its partition, 0, its segment number in the partition, and its number of rows; in order of the plan's partitions; absent without rows"},
				{statistics.FieldGramBlock, "[n, p]: √w x of each row x of the block with a weight w that is not 0. An update with `update.rows` sends these rows instead of `gram` if it has at most p/2 new rows and the stage has no trees"}},
			notes: []part{{"weight", "Σw of the rows"}},
		},
		{
			kind: statistics.KindLeaveRows, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldGramBatches, "[b, 4]: as in `gram-rows`, with the index of the message's increment in `update.leave` instead of 0"},
				{statistics.FieldGramBlock, "[n, p]: as in `gram-rows`, of the rows that leave the window, if they are at most p/2, and no rows were forgotten. Replaces `leave`"}},
		},
		{
			kind: statistics.KindRows, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldRowBatches, "[b, 3]: for each message with rows, its partition, its segment number in the partition, and its number of rows"},
				{statistics.FieldRowFacts, "[n, 5]: for each row, the number of nonzero values, class (−1: unknown), weight, weight if it is fitted, split (0 train, 1 holdout, 2 test)"},
				{statistics.FieldRowValues, "[z, 2]: for each of these values, the column of the block, ascending within a row, and the value; rows without a label or a weight, and forgotten rows, have none"},
				{statistics.FieldRowScores, "[n, k], stages after the first: the scores before the stage, with the weights of the previous version"},
				{statistics.FieldRowTargets, "[n, k], multi-label: 1 for each label of the row"},
				{statistics.FieldOverflow, "[1]: as in `visit`"}},
			notes: []part{{"covered", "coverage of the rows"}, {"spans", "merged partitions: as in `visit`"}},
		},
		{
			kind: statistics.KindSample, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldSample, "[n, d], survey of a plan without `warm`: raw rows, missing values as NaN; [n, c+k+1], visit −1 of a `trees` stage: for training rows, the codes of c columns, k residuals and the weight"},
				{statistics.FieldDraws, "text: hash of each row, 16 hexadecimal digits"}},
		},
		{
			kind: statistics.KindIncrement, topic: "statistics", writer: "worker", reader: "solver",
			tensors: []part{{statistics.FieldTerms, "[2, p, k], full run of a chain: Σ w x (xᵀV)ᵀ at the stage's final weights V, and Σ w x (y − g)ᵀ, of the increment with index `visit` in the plan, and of those that the run merges with it, if their weights are equal. The seal of the partitions follows all of them"},
				{statistics.FieldOccurring, "[m, 1+k], sparse rows, replaces `terms`: for each column of the block that occurs, its number and Σ w x² h at the final weights or, in a `class_counts` stage, Σ w x yᵀ"}},
		},
		{
			kind: statistics.KindSeal, topic: "statistics", writer: "worker", reader: "worker, solver",
			tensors: []part{
				{statistics.FieldSplits, "[3, 4]: as in `visit`, of the stage's final predictions"}, {statistics.FieldQuality, "[3, 2]"},
				{statistics.FieldBins, "[3, 15, 3]"}, {statistics.FieldDistances, "[3, k, 4], plan with targets, replaces `quality` and `bins`: as in `visit`"},
				{statistics.FieldHits, "[3, 100, 2, k], last stage, multi-label: as in `visit`"}, {statistics.FieldSubset, "[3, 101], last stage, multi-label"}, {statistics.FieldRanks, "[3, 3], last stage, multi-label"}, {statistics.FieldConfusion, "[3, k, k], absent with very many classes"},
				{statistics.FieldClasses, "[3, 4, k], last stage, single-label: as in `visit`"}, {statistics.FieldRanking, "[m, 2], last stage, single-label"}, {statistics.FieldDecided, "[3, 2, 2], last stage, single-label"},
				{statistics.FieldTempered, "[12], `trees` stage, plan with holdout rows and not of a chain: Σw·loss of the holdout rows, with scores divided by the temperatures 1, 1.1, 1.2, 1.35, 1.5, 1.7, 1.9, 2.2, 2.5, 3, 3.5 and 4"},
				{statistics.FieldTerms, "[m, 2, p, k], chain: written by earlier releases instead of records of the kind `increment`; solvers reject it"}, {statistics.FieldVisited, "[m, 5], chain: as in `visit`, for each increment of the window that the partition has"}, {FieldJudgedGroups, "[64, 2], chain: as in `visit`"},
				{statistics.PartAverage + "/FIELD", "last stage of a member, plan with averaging: `splits`, `quality` and the others again, for the mean prediction of the members so far"},
				{"sealed", "text, merged partitions: `partition`, `from`, `to`, `rows`, `scores` and `covered` of each partition in order, as JSON. The copy of a partition's seal after its residuals has no sums"},
			},
			notes: []part{
				{"covered", "coverage of the sums"}, {"spans", "merged partitions: as in `visit`"}, {"from", "first offset on the residuals topic"}, {"to", "offset after the last"}, {"rows", "rows of these messages"},
				{"scores", "digest of the scores and votes"}, {"attempt", "attempt of the valid residuals messages"},
			},
		},
		{
			kind: statistics.KindPrepare, topic: "weights", writer: "solver", reader: "worker, subscribers",
			tensors: []part{
				{statistics.TensorFactors, "[d], sparse rows: factor of each column; 0: the column is left out. There is then neither basis nor spread, and centre and scale cover the numeric columns of mixed rows, which come first; without such columns they are absent"},
				{statistics.TensorFactorColumns, "[m, 2], sparse rows of a chain, replaces `factors`: columns that have a factor, ascending, each encoded as a and b of 4096·a + b"},
				{statistics.TensorFactorValues, "[m], with `factor_columns`: their factors"},
				{statistics.TensorCenter, "[d]: mean of each scaled feature"}, {statistics.TensorScale, "[d]: factor of each centred feature; 0 for a constant feature"},
				{statistics.TensorBasis, "[d, m]: principal directions; absent without PCA"}, {statistics.TensorSpread, "[1]: median squared distance between inputs"},
				{statistics.TensorTargetCenter, "[k], plan with targets: mean of each target"}, {statistics.TensorTargetRest, "[k], plan with targets: the mean minus the float32 value `target_center`; the mean is the sum of both in float64; absent: 0"}, {statistics.TensorTargetScale, "[k], plan with targets: standard deviation of each target; 1 if it is constant. Scores and predictions of stages are for standardised targets"},
				{statistics.TensorClassWeight, "[k]: factor of the weights of training rows of each class; absent: 1"},
				{statistics.TensorImage, "[3]: height, width and channels of the images; absent without images"},
				{statistics.TensorWhitening + "/STAGE", "[q, q], `patches`: whitening of patches of q values"}, {statistics.TensorOffset + "/STAGE", "[q], `patches`: whitened mean"},
				{statistics.TensorFilters + "/STAGE", "[q, f], `patches`: filters, one per column"}, {statistics.TensorContrast + "/STAGE", "[1], `patches`: added to the variance of a patch"},
				{statistics.TensorMean + "/STAGE", "[p], `patches`: mean of each pooled response"}, {statistics.TensorFactor + "/STAGE", "[p], `patches`: factor of each centred pooled response"},
				{statistics.TensorKnotCounts, "[d], `scale: ranks`: number of knots of each feature; 0: its values are not transformed"}, {statistics.TensorKnots, "[e, 2], `scale: ranks`: knots of all features, each a value and its normal score; the values of a feature ascend"}, {statistics.TensorMissing, "[q, 3], `scale: ranks`: a feature that may be missing, and the mean and the factor of its missing indicator"},
				{statistics.TensorBins, "[c, 2], plan with trees: for each table column, its number of features, which is 1 for a numeric column, and its number of edges"}, {statistics.TensorEdges, "[e], plan with trees: edges of all columns, ascending within a column. The code of a number is 0 if it is missing, otherwise 1 plus the number of smaller edges. The code of a word is 1 plus its index among the first 254 categories; 0 for other words"},
				{statistics.TensorLabels, "text: classes"}, {statistics.TensorCovered, "text: coverage of each span of the plan, as JSON"},
				{"columns", "text: table columns of the features, as JSON; absent if unknown"},
				{"increments", "text, full run of a chain: increments with their accepted messages, as JSON"},
			},
			notes: []part{{"rows", "labelled rows of train, holdout and test"}, {"quarantined", "quarantined messages"},
				{"passed_over", "messages left out, by reason, as JSON"}, {"skipped", "chain: spans of messages that are not included, as JSON"},
				{"sends", "update on sparse rows: `rows` if workers send records of that kind instead of `visit` 0 of each stage; absent otherwise"}},
		},
		{
			kind: KindWeights, topic: "weights", writer: "solver", reader: "worker, subscribers",
			tensors: []part{{statistics.TensorW, "[p, k]; absent in a `gradient` stage if few weights differ from those of the previous visit"}, {statistics.TensorCalibration, "[bk, k], learnt link: maps the b powers of predictions in the stage's basis to predictions"},
				{statistics.TensorBlock, "[n, 2], `gradient` stage: inputs whose gradient and Gram matrix the visit sums, ascending, each encoded as a and b of 4096·a + b"}, {statistics.TensorChanged, "[n, 2], `gradient` stage, without `W`: inputs whose weights change, encoded as in `block`; absent if there are none"}, {statistics.TensorChange, "[n+1, k], with `changed`: added to the weights of these inputs, then to those of the intercept if there is one. Each weight is that of the previous visit plus this change, in float32"},
				{statistics.TensorOccurring, "[m, 2], update on sparse rows, without `W`: columns of the block that occur, encoded as in `block`"}, {statistics.TensorRows, "[m, k], with `occurring`: their weights. All other weights are those of the previous version, or 0 for inputs that it does not have"}, {statistics.TensorShift, "[k], with `occurring`, `class_counts` stage: added to the weights of all other inputs, in float32. Versions have all weights"}, {statistics.TensorCounts, "[p, k], full run of a chain, `class_counts` stage, with `final`: the counts that `W` was computed from"}},
			notes: []part{
				{"final", "if the record ends a stage: the visit that measured the loss of these weights"},
				{"links", "with `final`: number of passes of Algorithm 2 that count; 0 unless the link is learnt"},
				{"ridge", "ridge of the stage, if it is auto in the plan"},
				{"weight", "with `final`, `class_counts` stage: factor of the logarithms"},
				{"pass", "result of the pass that the previous visit ended, as JSON: an entry of `by_pass` of the report; absent if it ended none"},
			},
		},
		{
			kind: KindStructure, topic: "weights", writer: "solver", reader: "worker, subscribers",
			tensors: []part{{statistics.TensorTreeSizes, "[T], `trees` stage: number of nodes of each tree, which has one leaf more. Leaf i of tree t is feature t·leaves + i"},
				{statistics.TensorTreeOrders, "[o]: column of each order that nodes compare"}, {statistics.TensorTreeRanks, "[256·r]: ranks of the codes in each of the last r orders, which belong to categorical columns. In other orders the rank is the code"},
				{statistics.TensorTreeCompared, "[n]: order that each node compares, tree after tree, in preorder"}, {statistics.TensorTreeCuts, "[n]: rows with at most this rank go left"}, {statistics.TensorTreeLefts, "[n]: number of nodes on the left side. Leaves are numbered from left to right"}},
		},
		{
			kind: KindReport, topic: "weights", key: "report/RUN/DIGEST/CHUNK", writer: "solver", reader: "followers of a run",
			says: "result of a finished run. A version has it too, on `versions`", value: Report{},
		},
		{
			kind: KindPlan, topic: "plans", key: "plan/RUN/DIGEST/CHUNK", writer: "submitters", reader: "all",
			says: "definition of a run", value: Plan{},
		},
		{
			kind: KindEnd, topic: "plans", key: "end/RUN/ATTEMPT", writer: "solver, submitters", reader: "all",
			says:  "`state`: `done`, `failed` or `cancelled`, and the reason. If a run has several ends, `done` outranks `cancelled`, and `cancelled` outranks `failed`",
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
			says: "a worker is surveying examples of a run, so that the run is not abandoned", value: Claim{},
		},
		{
			kind: KindFailure, topic: "statistics", key: "RUN/failure/PARTITIONS", writer: "worker", reader: "solver",
			says: "why a partition's examples or residuals make the run fail", value: Failure{},
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
			says: "which version subscribers get as the latest, or that none is pinned. The last pin wins", value: Pin{},
		},
		{
			kind: KindForget, topic: "forget", key: "forget/DIGEST", writer: "submitters", reader: "planner",
			says: "rows excluded from all runs that are planned later, and their source if they are all of its rows", value: Forget{},
		},
		{
			kind: KindSourceRemoval, topic: "plans", key: "source/ID/ATTEMPT", writer: "submitters", reader: "planner",
			says: "an ingested source was removed: later runs exclude its messages. Of a seal and a removal with the same key, the later one wins", value: SourceRemoval{},
		},
		{
			kind: KindDivision, topic: "plans", key: "division/TOPIC/ATTEMPT/WRITER", writer: "submitters", reader: "submitters",
			says: "number of partitions of the examples that a followed topic is ingested into. The first division of an attempt wins", value: Division{},
		},
		{
			kind: KindLedger, topic: "plans", key: "ledger//DIGEST/CHUNK", writer: "solver", reader: "all",
			says: "state of the plans topic before an offset", value: Ledger{},
		},
		{
			kind: statistics.KindTerms, topic: "state", writer: "solver", reader: "solver",
			tensors: []part{{statistics.FieldTerms, "[2, p, k]: Σ w x (xᵀV)ᵀ and Σ w x (g − y)ᵀ of the increment with index `visit` among those that the run visited"}, {statistics.FieldOccurring, "[m, 1+k], sparse rows, replaces `terms`: as in `increment` at weight 1, rounded to multiples of the grid; columns are those of the examples, and that of the intercept is 67108864. float32 if all numbers are exact in it, otherwise float64. In float32, with k > 2 and n numbers that are not 0, it is [n, 3] if that is shorter: column, class and number of each, in order. Earlier releases write only float64"}},
		},
		{
			kind: statistics.KindMoments, topic: "state", writer: "solver", reader: "solver",
			tensors: []part{{statistics.FieldTerms,
				"[2, p, k]: sums over the window of the terms of its increments, multiplied by their weights"}, {statistics.FieldGram,
				"[p(p+1)/2]: Σ w x xᵀ of the window; absent in most records"},
				{statistics.FieldSummed, "[2], full run on sparse rows, replaces both: the initial sum of curvature of each input, and the power of 2 that terms are multiples of. The sums over the window follow from the terms"}},
			notes: []part{{"curvature", "curvature that the run measured along its steps"}},
		},
		{
			kind: KindWindow, topic: "state", key: "window/RUN/DIGEST/CHUNK", writer: "solver", reader: "solver, planner",
			says: "state that the next run of a chain continues from", value: Window{},
		},
		{kind: prediction.Kind, topic: "predictions", key: "TOPIC/PARTITION/OFFSET/ROW", writer: "scorer", reader: "scorer, anybody"},
		{kind: KindQuarantine, topic: "quarantine", key: "TOPIC/PARTITION/OFFSET", writer: "worker", reader: "people, workers"},
	}
}
