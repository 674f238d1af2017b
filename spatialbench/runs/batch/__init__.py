"""Many worlds: units in worker processes, resumable, whatever happens to one of them."""

from spatialbench.runs.batch.batch import EXECUTORS, Batch, BatchOptions, open_batch
from spatialbench.runs.batch.engine import Board, Running, Watcher
from spatialbench.runs.batch.executor import Event, Executor, Task
from spatialbench.runs.batch.finished import UnitRecord, read_finished
from spatialbench.runs.batch.plan import Only, parse_only, parse_shard
from spatialbench.runs.batch.planfile import BatchFile, read_batch

__all__ = ["EXECUTORS", "Batch", "BatchFile", "BatchOptions", "Board", "Event", "Executor", "Only", "Running", "Task",
           "UnitRecord", "Watcher", "open_batch", "parse_only", "parse_shard", "read_batch", "read_finished"]
