"""Names for the places in the arrays that workers share: one list, used by kernels and views.

Integer words that different workers write stand 16 words (128 bytes) apart, so that no two of them
share a cache line or the line beside it, which processors fetch in pairs. Nobody reads them in
ascending order, which would make processors fetch further ahead (`hogshare.shm.spacing`).
"""

WORD = 16  # int64 words between two control words: 128 bytes

# control : int64[N_CONTROL * WORD], one word each, written by several workers (atomics only)
TICKET = 0 * WORD  # next block to hand out, counted over all epochs
STOP = 1 * WORD  # why to stop; 0 while running
VERSION = 2 * WORD  # pushes so far; with a master, updates
APPLIED = VERSION + 1  # messages in the master's model; the master's alone
BROUGHT = (
    VERSION + 2
)  # times that others' offers were taken into a site's vector; see `site_exchange`
EPOCHS = 3 * WORD  # finished epochs
READY = 4 * WORD  # epochs whose row order is prepared
PREPARER = 5 * WORD  # worker + 1 that prepares the next order; 0: nobody
RETURNED = 6 * WORD  # number of blocks that the monitor has put back
COMPLETED = 7 * WORD  # finished blocks
LIVE = 8 * WORD  # workers that have joined and not left
ENDER = 9 * WORD  # worker + 1 that is ending an epoch; 0: nobody
LIMIT = (
    10 * WORD
)  # epochs after which workers rest until the caller has looked; see `epoch_schedule`
REPAIR_WANTED = 11 * WORD  # repairs of the remembered sums that the monitor has asked for
REPAIRED = 12 * WORD  # repairs that are done, or made good by a later one
SUMMER = 13 * WORD  # worker + 1 that sums anew; 0: nobody; -repair: whoever comes first shall
GENERATION = 14 * WORD  # releases of the throttled barrier so far
SECTION = 15 * WORD  # rounds times workers plus the worker whose turn it is, see `ordered_rounds`
WRITES = 16 * WORD  # of the master into the model: odd while it writes
GATHERED = 17 * WORD  # messages in the master's sum
PLACES = 18 * WORD  # coordinates in the master's sum; ALL_PLACES: all, in their order
JOURNAL = 19 * WORD  # 1 + version that the master is writing; 0: none
JOURNAL_WORKER = JOURNAL + 1  # whose message filled the sum; -1: nobody's (the master's, as all)
JOURNAL_NUMBER = JOURNAL + 2  # which of its messages
JOURNAL_APPLIED = JOURNAL + 3  # messages in that version
READERS = 20 * WORD  # workers that have tried to read in vain, many times
SERVING = 21 * WORD  # worker + 1 that is at the master's work, the master as the one after; or 0
MAIL_WAIT = 21 * WORD + 1  # nanoseconds that its turns have waited for mail; the master's alone
MAIL_HELPED = 21 * WORD + 2  # messages that workers have taken; of who has SERVING, as the next
MAIL_HELPED_NS = 21 * WORD + 3  # nanoseconds that this took them
RECORDED = 22 * WORD  # events written into the recording
BLOCK_TIME = 23 * WORD  # mean nanoseconds of the first blocks, once known; for stragglers
N_CONTROL = 24

# values of STOP
RUNNING = 0
STOPPED_BY_CRITERION = 1
STOPPED_BY_CALLER = 2
STOPPED_BY_DIVERGENCE = 3
STOPPED_BY_LIMIT = 4
STOPPED_IN_STEP = 5  # by a caller of a run in step over sites, where all see it at one point

# value of PLACES
ALL_PLACES = -1

# returned : int64[n_workers * WORD], blocks put back by the monitor, or one of
NO_BLOCK = -1
FINISH_EPOCH = -2  # not a block: somebody died between a block's end and its epoch's end

# table : int64[n_workers, N_TABLE], one row per worker, written by that worker (and by the monitor
# once it is dead)
T_STATE = 0
T_CLOCK = 1  # blocks completed, as barriers see it, see `epoch_schedule.tick`
T_BLOCKS = 2  # blocks completed, as work
T_ROWS = 3
T_BLOCK = 4  # ticket in hand, or NO_BLOCK
T_VERSION = 5  # version read at the last pull
T_STALENESS = 6  # staleness of the last push
T_PUSHES = 7
T_HEARTBEAT = 8  # time.perf_counter_ns() at the end of the last turn
T_WAITING = 9  # nanoseconds waited, within turns and between them
T_BUSY = 10  # nanoseconds computed
T_UNEXCHANGED = 11  # rows since the last exchange
T_PROCESS = 12  # process id
T_JOINED = 13  # time.perf_counter_ns() when the worker entered the run
T_PAUSED = 14  # the last repair that the worker has paused for
T_ROWS_AT_JOIN = 15  # T_ROWS when the worker entered the run last
T_PASSED = 16  # the barrier has been passed for the block after so many less one
T_ARRIVED = 17  # 1 + generation in which it came to a throttled barrier; 0: it is not there
T_STREAM = 18  # of the barrier's samples; uint32, never zero
T_LAG = 19  # largest lead on the last of the others at the moment of passing a barrier
T_ROUND = 20  # the round of the worker's next section, see `ordered_rounds`
T_COMPUTED = 21  # the block in hand is computed and not folded, see `ordered_rounds`
T_READY = 22  # the last round for whose sections the worker has computed what it had to
T_WISH = 23  # what the worker does after its next section
T_SITE = (
    24  # where the worker computes, in a run in step over sites, see `ordered_rounds`; or ONE_SITE
)
T_STOPS = 25  # of the same, why the block in hand is to stop the run; 0: it is not
T_DROPPED = 26  # of the worker's messages, those that the master has dropped, who writes this
T_SLEEPS = 27  # sleeps begun in the block in hand: 1 before it computes; more: see `apart`
T_COUNTED = 28  # blocks completed by all when its last one was counted, see `ordered_rounds`
T_ENTERS = 29  # 1: turns enter the run and leave it, see `turns`; 0: calls of their own do
T_POLLS = 30  # times that turns look again in one wait
T_POLLED = 31  # of which so many are done
T_APPLIED = 32  # of the worker's messages that the master has not dropped, those in its model
T_PULLED = 33  # messages of others in what the worker has read of the master's model
T_STEP = 34  # 1: the block in hand has its step taken outside of kernels, see `quanta`
T_PLANE_WAIT = 35  # a plane lets the worker wait: FOR_OTHERS or FOR_TIME; 0: it does not
T_PLANE_WAITS = 36  # such waits that are over
T_PLANE_WAIT_NS = 37  # of T_WAITING, for the plane
T_PENDING = (
    38  # 1 + the round after whose sections the worker's plane goes on, see `ordered_rounds`; or 0
)
T_SHARE = 39  # blocks of the worker's share of the rows that have been claimed, see `shares`
T_GROUP = 40  # workers whose barriers see each other have one number
T_EXPECTED = 41  # epochs up to which who rested is expected again, see `Session.raise_limit`
T_PART = (
    42  # rows of the mini-batch's part that waits for its step; STEPPED; or 0, see `ordered_rounds`
)
T_BROUGHT = 44  # BROUGHT at the last pull
T_DEALT = 43  # epochs for which the worker's share has been dealt, where each goes on by itself
T_READS = 45  # snapshots of the master's model that the worker has read
T_VALUES_READ = 46  # numbers in all of them
T_UNDER_WAY = 47  # of its messages to a master, those that are not in what it has read
T_PROPOSALS = (
    48  # of a replay, what `master_updates.proposals` was for the block in hand; 0: count anew
)
T_HELPS = 49  # 1: the worker does the master's work where nobody is at it
T_MOVES = 50  # last moves of T_STATE, see `worker_life.story`
N_TABLE = 4 * WORD

# values of T_STATE
STARTING = 0
ACTIVE = 1
WAITING = 2
DONE = 3
DEAD = 4
RESTING = 5  # has left until the caller raises the limit
STATES = ("starting", "running", "waiting", "done", "dead", "resting")  # by value

# values of T_SITE
ONE_SITE = 0  # all workers compute in one memory
ASKS = 1  # in this memory, and its caller is asked before each block
BEGINS = 2  # the caller has been asked, and the block may begin
REMOTE = 3  # in another memory: what a block comes to is brought from there

# values of T_PLANE_WAIT
FOR_OTHERS = 1  # until they have done something
FOR_TIME = 2  # as well, but for some time at most

HISTOGRAM = 128  # bins of the histograms of staleness and age; the last holds that much or more

# columns : float64[N_COLUMN_FIELDS, n_columns], written by whoever ends an epoch
C_ACTIVE = 0  # 1 while the column still learns
C_ETA = 1  # step size of the adaptive schedule, or of SAGA
C_BEST = 2  # best criterion so far
C_PATIENCE = 3  # epochs in a row without improvement
C_EPOCHS = 4  # epochs in which the column learned
C_POSITIVE = 5  # weight of rows of the column's class; constant
C_NEGATIVE = 6  # weight of the others; constant
C_CALM = 7  # SAGA: least sum of squared changes of an epoch so far
C_LOUD = 8  # the largest
C_LAST = 9  # the last
C_GREW = 10  # epochs in a row in which it rose, near the largest and far above the least
C_FALLS = 11  # epochs in which SAGA's step falls; constant
C_CHANGE = 12  # sum of squared changes of what is remembered in the last epoch, of all columns
C_ENOUGH = 13  # a look is worth while at that sum; 0: never; -e: one is wanted after epoch e
C_SMALL = 14  # and at that gradient, as SAGA's average tells of it; 0: whatever it is
C_SOONEST = 15  # and not before so many epochs
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
L_LOSS = 10  # sum of losses of the block in hand, whole when settled; see `block_sums`
L_CRITERION = 11  # sum of losses and penalties of the block in hand, likewise
L_ETA = 12  # last step size taken
L_AVERAGE_COUNT = 13  # iterates in the sums
L_GAIN = 14  # scratch of one row; only written, which keeps a division early: see `sgd_steps`
L_DUAL_MEAN = 15  # mean of the dual variables, as this worker knows it
L_DUAL_MEAN_BASE = 16  # the shared one at the last exchange
L_CHANGE = 17  # sum of squared changes of what is remembered of rows in the block in hand
L_STRETCH = 18  # what a change of the copy is divided by when it is folded; see `copy_exchange`
L_FACTOR = 19  # product whose logarithm is still to be added to the two sums; see `block_sums`
N_LOCAL_FIELDS = 20

# mail_counters : int64[n_edges, N_COUNTERS], see `edge_slots`
M_POSTED = 0 * WORD  # messages that the writer has sent
M_BEGAN = 0 * WORD + 1  # where links are emulated: when the run began, in nanoseconds
M_FREE = 0 * WORD + 2  # and when the writer's last message has departed
M_PLACED = 0 * WORD + 3  # values with a place in all of the writer's messages
M_DENSE = 0 * WORD + 4  # and values without one
M_ARRIVED = 1 * WORD  # of which so many stand where they are read
M_TAKEN = 2 * WORD  # of which the reader has done with so many
N_COUNTERS = 3 * WORD

# mail_heads : int64[n_edges, queue, WORD], the head of each message, see `edge_slots`
H_NUMBER = 0  # which message of its edge it is, from 1; written last
H_VERSION = 1  # of what it was computed from
H_COUNT = 2  # values with a place
H_DENSE = 3  # values without one
H_TICKET = 4  # of the block
H_PULLED = 5  # to a master: messages of others in what it was computed from
H_PROPOSALS = 6  # to a master: of how many from about one point it is one, see `master_updates`
H_WHOLE = 7  # to a master: 1 if it has a value for each coordinate, in their order
H_ROUND = 8  # of the writer's, on planes with rounds of their own; written before the values
H_FOOTER = 9  # the same, written after them
H_DUE = 10  # where links are emulated: nanoseconds before which the reader does not see it

# recording : int64[n_events, N_EVENT], in the order in which it happened, see `replay`
E_WORKER = 0  # or NO_WORKER: the master applied the rest of a sum
E_TICKET = 1
E_VERSION = 2  # that the worker had read
E_PROPOSALS = 3  # H_PROPOSALS of its message, if it was one
N_EVENT = 4
NO_WORKER = -1

# answers of a turn
QUANTUM_OVER = 0  # the quantum is used up; there is more to do
QUANTUM_WAIT = 1  # nothing to claim yet
QUANTUM_EPOCH = 2  # this worker ended an epoch and the caller asked to be told
QUANTUM_RECORD = 3  # a snapshot of the model is due
QUANTUM_DONE = 4  # nothing left
QUANTUM_PAUSE = 5  # nothing to claim until the caller raises the limit
QUANTUM_SLEEP = 6  # a block is claimed, and this worker is to sleep before it computes
QUANTUM_CLOSED = 7  # the run was closed, or is over, before this worker entered it
QUANTUM_STEP = 8  # a block is claimed and pulled: its step is to be taken outside
QUANTUM_HOME = 9  # all sections of a round are over: the worker's plane goes on
QUANTUM_GATHER = 10  # all parts of a mini-batch are computed: its step is to be taken outside
QUANTUM_BRING = (
    11  # a block is to begin, or is computed, in a run over sites: the caller sees to it
)
