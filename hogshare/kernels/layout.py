"""Names for the places in the arrays that workers share: one list, used by kernels and views.

Integer words that different workers write have a distance of 16 words (128 bytes). Processors fetch
cache lines in pairs, so no two such words are in the same pair. If code read the words in ascending
order, processors would fetch further ahead; so no code does (`hogshare.shm.spacing`).
"""

WORD = 16  # int64 words between two control words: 128 bytes

# control : int64[N_CONTROL * WORD], one word each, written by several workers (atomics only)
TICKET = 0 * WORD  # next block to claim, counted over all epochs
STOP = 1 * WORD  # the reason to stop; 0 while the run goes on
VERSION = 2 * WORD  # number of pushes so far; with a master, number of updates
APPLIED = VERSION + 1  # number of messages in the master's model; only the master writes it
BROUGHT = (
    VERSION + 2
)  # times that others' offers were taken into a site's vector; see `site_exchange`
EPOCHS = 3 * WORD  # number of finished epochs
READY = 4 * WORD  # number of epochs whose row order has been prepared
PREPARER = 5 * WORD  # 1 + the worker that prepares the next order; 0: none
RETURNED = 6 * WORD  # number of blocks that the monitor has put back
COMPLETED = 7 * WORD  # number of finished blocks
LIVE = 8 * WORD  # number of workers that have joined and not left
ENDER = 9 * WORD  # 1 + the worker that is ending an epoch; 0: none
LIMIT = (
    10 * WORD
)  # epochs after which workers pause until the caller has checked; see `epoch_schedule`
REPAIR_WANTED = 11 * WORD  # number of repairs of the rows' sums that the monitor has asked for
REPAIRED = 12 * WORD  # number of repairs that are done, or replaced by a later repair
SUMMER = 13 * WORD  # 1 + the worker that sums anew; 0: none; -repair: open to the first worker
GENERATION = 14 * WORD  # number of releases of the throttled barrier so far
SECTION = 15 * WORD  # rounds times workers plus the section's worker, see `ordered_rounds`
WRITES = 16 * WORD  # a seqlock, advanced by the master's writes to the model: odd while it writes
GATHERED = 17 * WORD  # number of messages in the master's sum
PLACES = 18 * WORD  # number of coordinates in the master's sum; ALL_PLACES: all, in order of index
JOURNAL = 19 * WORD  # 1 + the version that the master is writing; 0: none
JOURNAL_WORKER = JOURNAL + 1  # sender of the message that filled the sum; -1: none
JOURNAL_NUMBER = JOURNAL + 2  # number of that message
JOURNAL_APPLIED = JOURNAL + 3  # number of messages in that version
READERS = 20 * WORD  # number of workers whose reads have failed many times
SERVING = 21 * WORD  # 1 + the worker that does the master's work; n_workers + 1: the master; or 0
MAIL_WAIT = 21 * WORD + 1  # nanoseconds that the master has waited for mail; only it writes this
MAIL_HELPED = 21 * WORD + 2  # messages taken by workers; written by SERVING's owner
MAIL_HELPED_NS = 21 * WORD + 3  # nanoseconds that workers took for this; written by SERVING's owner
RECORDED = 22 * WORD  # number of events in the recording
BLOCK_TIME = 23 * WORD  # mean nanoseconds of the first blocks, once known; for stragglers
N_CONTROL = 24

# values of STOP
RUNNING = 0
STOPPED_BY_CRITERION = 1
STOPPED_BY_CALLER = 2
STOPPED_BY_DIVERGENCE = 3
STOPPED_BY_LIMIT = 4
STOPPED_IN_STEP = 5  # by a caller of a run in step over sites: all sites see it at the same point

# value of PLACES
ALL_PLACES = -1

# returned : int64[n_workers * WORD], blocks put back by the monitor, or a value below
NO_BLOCK = -1
FINISH_EPOCH = -2  # not a block: a worker died between a block's end and its epoch's end

# table : int64[n_workers, N_TABLE], one row per worker, written by that worker (and by the monitor
# once it is dead)
T_STATE = 0
T_CLOCK = 1  # number of completed blocks that barriers count, see `epoch_schedule.tick`
T_BLOCKS = 2  # number of completed blocks, all counted
T_ROWS = 3
T_BLOCK = 4  # ticket of the block in hand: claimed and not yet completed; or NO_BLOCK
T_VERSION = 5  # version read at the last pull
T_STALENESS = 6  # staleness of the last push
T_PUSHES = 7
T_HEARTBEAT = 8  # time.perf_counter_ns() at the end of the last quantum
T_WAITING = 9  # nanoseconds waited, within quanta and between them
T_BUSY = 10  # nanoseconds computed
T_UNEXCHANGED = 11  # number of rows since the last exchange
T_PROCESS = 12  # process id
T_JOINED = 13  # time.perf_counter_ns() when the worker entered the run
T_PAUSED = 14  # number of the last repair for which the worker has paused
T_ROWS_AT_JOIN = 15  # T_ROWS when the worker last entered the run
T_PASSED = 16  # 1 + the clock at which the barrier has been passed for the next block
T_ARRIVED = 17  # 1 + the generation of its arrival at a throttled barrier; 0: it is not at one
T_STREAM = 18  # state of the barrier's random stream; uint32, never zero
T_LAG = 19  # largest lead on the slowest other worker at the moment of passing a barrier
T_ROUND = 20  # the round of the worker's next section, see `ordered_rounds`
T_COMPUTED = 21  # state of a block that is computed and not folded, see `ordered_rounds`
T_READY = 22  # the last round for whose sections the worker has computed its block
T_WISH = 23  # the worker's action after its next section
T_SITE = (
    24  # where the worker computes, in a run in step over sites, see `ordered_rounds`; or ONE_SITE
)
T_STOPS = 25  # in a run in step over sites, the reason of the block in hand to stop the run; or 0
T_DROPPED = 26  # number of its messages that the master has dropped; the master writes this
T_SLEEPS = 27  # number of sleeps begun in the block: 1 before its step, or see `stale_quanta`
T_COUNTED = 28  # COMPLETED when its last block was counted, see `ordered_rounds`
T_ENTERS = 29  # 1: quanta enter and leave the run, see `run_membership`; 0: separate calls do
T_POLLS = 30  # number of times that quanta poll again in one wait
T_POLLED = 31  # number of times that quanta have polled again in this wait
T_APPLIED = 32  # number of the worker's messages in the master's model, without dropped messages
T_PULLED = 33  # number of other workers' messages in its snapshot of the master's model
T_STEP = 34  # 1: the block in hand has its step taken outside of kernels, see `quanta`
T_PLANE_WAIT = 35  # the worker waits at a plane: FOR_OTHERS or FOR_TIME; 0: it does not
T_PLANE_WAITS = 36  # number of waits at a plane that are over
T_PLANE_WAIT_NS = 37  # nanoseconds of T_WAITING spent at the plane
T_PENDING = (
    38  # 1 + the round after whose sections the worker's plane goes on, see `ordered_rounds`; or 0
)
T_SHARE = 39  # number of claimed blocks of the worker's share of the rows, see `shares`
T_GROUP = 40  # workers whose barriers see each other have the same number
T_EXPECTED = 41  # number of epochs for which a paused worker must return, see `Session.raise_limit`
T_PART = (
    42  # rows of the mini-batch's part that waits for its step; STEPPED; or 0, see `ordered_rounds`
)
T_BROUGHT = 44  # BROUGHT at the last pull
T_DEALT = 43  # number of epochs for which its share has been dealt, with `EpochPlan.free`
T_READS = 45  # number of snapshots of the master's model that the worker has read
T_VALUES_READ = 46  # number of values in all these snapshots
T_UNDER_WAY = 47  # number of its messages to a master that are not in its snapshot
T_PROPOSALS = 48  # in a replay, `master_updates.proposals` of the block in hand; 0: count anew
T_HELPS = 49  # 1: the worker does the master's work when SERVING is free
T_MOVES = 50  # last moves of T_STATE, see `worker_life.story`
N_TABLE = 4 * WORD

# values of T_STATE
STARTING = 0
ACTIVE = 1
WAITING = 2
DONE = 3
DEAD = 4
RESTING = 5  # paused: the worker has left until the caller raises the limit
STATES = ("starting", "running", "waiting", "done", "dead", "resting")  # by value

# values of T_SITE
ONE_SITE = 0  # all workers compute in one memory
ASKS = 1  # in this memory, and its caller is asked before each block
BEGINS = 2  # the caller has been asked, and the block may begin
REMOTE = 3  # in another memory, from which a block's result is sent

# values of T_PLANE_WAIT
FOR_OTHERS = 1  # until other workers have done something
FOR_TIME = 2  # until other workers have done something, but for a limited time

HISTOGRAM = 128  # bins of the histograms of staleness and age; the last: all larger values

# columns : float64[N_COLUMN_FIELDS, n_columns], written by the worker that ends an epoch
C_ACTIVE = 0  # 1 while the column still learns
C_ETA = 1  # step size of the adaptive schedule, or of SAGA
C_BEST = 2  # best criterion so far
C_PATIENCE = 3  # epochs in a row without improvement
C_EPOCHS = 4  # epochs in which the column learned
C_POSITIVE = 5  # class weight of rows of the column's class; constant
C_NEGATIVE = 6  # class weight of the other rows; constant
C_CALM = 7  # SAGA: least sum of squared changes of an epoch so far
C_LOUD = 8  # the largest sum of squared changes of an epoch so far
C_LAST = 9  # the sum of squared changes of the last epoch
C_GREW = 10  # number of successive epochs in which this sum rose, see `saga_steps.tame`
C_FALLS = 11  # number of epochs in which SAGA's step falls; constant
C_CHANGE = 12  # sum of squared changes of the rows' memory in the last epoch, of all columns
C_ENOUGH = 13  # C_CHANGE at which to check convergence; 0: never; -e: check after epoch e
C_SMALL = 14  # largest gradient, from SAGA's average, at which to check; 0: any
C_SOONEST = 15  # least number of epochs before a check
N_COLUMN_FIELDS = 16

# local : float64[N_LOCAL_FIELDS, n_columns], private to one worker
L_SCALE = 0  # the model is scale * w
L_INTERCEPT = 1
L_INTERCEPT_BASE = 2  # shared intercept at the last exchange
L_AVERAGE_SCALE = 3  # sum of scales since the last flush of the average
L_AVERAGE_INTERCEPT = 4  # sum of intercepts
L_PENALTY = 5  # cumulative l1 penalty that every feature should have received
L_SQUARED_NORM = 6  # scikit-learn's running estimate, for its stop criterion
L_L1_NORM = 7
L_MARGIN = 8  # scratch of one row
L_STEP = 9  # scratch of one row
L_LOSS = 10  # sum of losses of the block in hand, complete when settled; see `block_sums`
L_CRITERION = 11  # sum of losses and penalties of the block in hand, complete when settled
L_ETA = 12  # last step size taken
L_AVERAGE_COUNT = 13  # iterates in the sums
L_GAIN = 14  # scratch of one row; only written, to make a division early: see `sgd_steps`
L_DUAL_MEAN = 15  # mean of the dual variables, in this worker's copy
L_DUAL_MEAN_BASE = 16  # the shared mean of the dual variables at the last exchange
L_CHANGE = 17  # sum of squared changes of the rows' memory in the block in hand
L_STRETCH = 18  # divisor of a change of the copy when it is folded; see `copy_exchange`
L_FACTOR = 19  # product whose logarithm is still to be added to the two sums; see `block_sums`
N_LOCAL_FIELDS = 20

# mail_counters : int64[n_edges, N_COUNTERS], see `edge_slots`
M_POSTED = 0 * WORD  # number of messages that the writer has sent
M_BEGAN = 0 * WORD + 1  # where links are emulated: when the run began, in nanoseconds
M_FREE = 0 * WORD + 2  # where links are emulated: when the writer's last message has departed
M_PLACED = 0 * WORD + 3  # number of values with a place in all of the writer's messages
M_DENSE = 0 * WORD + 4  # number of values without a place in all of the writer's messages
M_ARRIVED = 1 * WORD  # number of messages that have arrived where the reader reads
M_TAKEN = 2 * WORD  # number of messages that the reader has acknowledged
N_COUNTERS = 3 * WORD

# mail_heads : int64[n_edges, queue, WORD], the head of each message, see `edge_slots`
H_NUMBER = 0  # the message's number on its edge, from 1; written last
H_VERSION = 1  # version of the model from which the message was computed
H_COUNT = 2  # number of values with a place
H_DENSE = 3  # number of values without a place
H_TICKET = 4  # of the block
H_PULLED = 5  # to a master: number of other workers' messages in the message's snapshot
H_PROPOSALS = 6  # to a master: number of messages from about the same point, see `master_updates`
H_WHOLE = 7  # to a master: 1 if the message has a value for each coordinate, in order of index
H_ROUND = 8  # the writer's round, on planes with rounds of their own; written before the values
H_FOOTER = 9  # the writer's round again, written after the values
H_DUE = 10  # where links are emulated: nanoseconds before which the reader does not see a message

# recording : int64[n_events, N_EVENT], in the order of the events, see `replay`
E_WORKER = 0  # or NO_WORKER: the master applied an unfinished sum
E_TICKET = 1
E_VERSION = 2  # version that the worker had read
E_PROPOSALS = 3  # H_PROPOSALS of its message, if it was one
N_EVENT = 4
NO_WORKER = -1

# answers of a quantum
QUANTUM_OVER = 0  # the quantum is used up; there is more to do
QUANTUM_WAIT = 1  # nothing to claim yet
QUANTUM_EPOCH = 2  # this worker ended an epoch, and the caller asked for reports of epochs
QUANTUM_RECORD = 3  # a snapshot of the model is due
QUANTUM_DONE = 4  # nothing left
QUANTUM_PAUSE = 5  # nothing to claim until the caller raises the limit
QUANTUM_SLEEP = 6  # a block is claimed, and this worker is to sleep before it computes
QUANTUM_CLOSED = 7  # the run was closed or over before this worker entered it
QUANTUM_STEP = 8  # a block is claimed and the model pulled: its step has to be taken outside
QUANTUM_HOME = 9  # all sections of a round are over: the worker's plane goes on
QUANTUM_GATHER = 10  # all parts of a mini-batch are computed: its step has to be taken outside
QUANTUM_BRING = (
    11  # a block is to begin, or is computed, in a run over sites: the caller handles it
)
