"""Takes part in federated learning from inside a Python application.

    import skep

    client = skep.Client(join=open("join.txt").read(), storage_dir="~/.local/share/pump",
                         data=lambda task: (X, y))
    outcome = client.run_once(300)      # one check-in; Ctrl-C cancels it
    come_back_in(outcome.retry_after)   # seconds

Examples never leave the device. This is the C interface skep/skep.h by ctypes: one file, Python 3.9
or later, NumPy if it is there. skep/skep.h has the contracts in full; the same words mean the same.

Data. `data` is one of
- a tuple (X, y) or (X, y, weights): rows of features, one label a row, optionally one weight a row;
- an iterable of batches, each such a tuple, that can be iterated again and again, such as a list;
- a function of the task that returns one of these or a new iterator of batches; None is "no data".
  It is called once a task for arrays, and once an epoch, and once more for counting, for iterators;
- an object with count(task), rewind(task, seed) and next(task, max_rows), which returns such a tuple,
  or None at the end of an epoch.
X holds floats, bytes (uint8, read as value / 255) or integers, which are token ids. y holds integers,
which are classes, or floats. Arrays are shuffled anew for each epoch; iterators bring their own order.
Without NumPy, X is a sequence of rows: sequences of floats, bytes, or array.array("i").

Training. Without a `trainer` the library trains the layers of the plan. A trainer is a function
train(task, model) that changes the arrays in the dict `model` in place and returns the number of
distinct examples used, or an object with train, optionally evaluate(task, model), and optionally
capabilities (a sum of CAN_PROXIMAL and CAN_PARTIAL). The arrays (NumPy's, else memoryviews) are views
of the library's memory: they are emptied when the call returns, and a trainer that keeps a view of
one gets a RuntimeError. Take batches from task.batches(): these are copies, and yours.

Errors. What the application's functions raise ends the run, if it comes from data or trainer, and is
raised again by run_once, or by stop, when the library has returned. What a run comes to otherwise is
an Outcome. Other calls raise skep.Error.

Threads. As in skep/skep.h: one at a time, but cancel, history and status from any. The application's
functions run on the thread that called run_once, or on the library's after start.
"""

from __future__ import annotations

import array
import ctypes
import dataclasses
import enum
import gc
import json
import math
import os
import random
import signal
import socket
import sys
import threading
import traceback
import weakref
from ctypes import c_char_p, c_double, c_float, c_int8, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64
from ctypes import c_void_p

try:
    import numpy
except ImportError:
    numpy = None

__all__ = ["CAN_PARTIAL", "CAN_PROXIMAL", "Client", "DeviceState", "Error", "LogLevel", "Outcome", "Phase", "Progress",
           "Status", "Step", "Stopped", "Task", "TaskView", "diagnose", "explain", "history", "status", "version"]

CAN_PROXIMAL = 1
CAN_PARTIAL = 2


class Status(enum.IntEnum):
    """0: a contribution was accepted; > 0: none, and that is normal; < 0: an error."""
    OK = 0
    NO_WORK = 1
    NOT_ELIGIBLE = 2
    CANCELLED = 3
    LIMIT = 4
    REJECTED = 5
    E_NETWORK = -1
    E_AUTH = -2
    E_PROTOCOL = -3
    E_DATA = -4
    E_STORAGE = -5
    E_ARGUMENT = -6
    E_TRAINER = -7
    E_BUSY = -8
    E_MEMORY = -9
    E_BUFFER = -10
    E_INTERNAL = -11


class Phase(enum.IntEnum):
    DOWNLOAD = 1
    TRAIN = 2
    ENCODE = 3
    UPLOAD = 4
    CHECK_IN = 5
    WAIT = 6


class LogLevel(enum.IntEnum):
    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


class Error(RuntimeError):
    """A call was refused. status: a Status; code: the nnnn of SKEP-nnnn, or 0; see explain(code)."""

    def __init__(self, status, code, text):
        super().__init__(text)
        self.status = _known(Status, status)
        self.code = code


class Stopped(Exception):
    """Raised by a task's calls when the run has to end. Let it pass through train and evaluate."""

    def __init__(self, status):
        super().__init__(_text(_lib.skep_status_name(status)))
        self.status = status


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run came to."""
    status: Status
    code: int           # the nnnn of SKEP-nnnn, or 0
    retry_after: int    # seconds: come back after that, not sooner
    round: int          # 0 where no task was received
    num_examples: int   # distinct examples that were used
    bytes_down: int     # on the socket, during this run
    bytes_up: int
    message: str        # one sentence for a log; never holds training data

    @property
    def contributed(self) -> bool:
        return self.status == Status.OK

    @property
    def failed(self) -> bool:
        return self.status < 0


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run is."""
    phase: Phase
    task_id: str         # "" before there is a task
    round: int
    bytes_down: int
    bytes_up: int
    fraction: float      # of this phase, 0 to 1, or -1 for unknown
    loss: float          # NaN until it is known


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a diagnosis."""
    name: str
    code: int            # the nnnn of SKEP-nnnn, or 0: it is well
    found: str           # what was found
    advice: str          # what to do, or ""


@dataclasses.dataclass
class DeviceState:
    """What on_device_state returns; None means unknown, and does not meet a required condition."""
    charging: bool | None = None
    idle: bool | None = None
    unmetered: bool | None = None
    thermal_ok: bool | None = None
    battery_level: float | None = None


# --- The C interface ------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("shape", ctypes.POINTER(c_int64)), ("nbytes", c_size_t),
                ("dtype", c_int32), ("rank", c_uint32)]


class _Batch(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("x_dtype", c_int32), ("y_dtype", c_int32), ("reserved", c_uint32),
                ("x", c_void_p), ("y", c_void_p), ("example_weight", c_void_p), ("rows", c_size_t),
                ("x_cols", c_size_t), ("y_cols", c_size_t)]


class _DeviceState(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("charging", c_int8), ("idle", c_int8), ("unmetered", c_int8),
                ("thermal_ok", c_int8), ("battery_level", c_float), ("reserved", c_uint32)]


_CountFn = ctypes.CFUNCTYPE(c_int64, c_void_p, c_void_p)
_RewindFn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint64)
_NextFn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, ctypes.POINTER(_Batch))
_TrainFn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, ctypes.POINTER(_Tensor), c_size_t, ctypes.POINTER(c_uint64))


class _DataSource(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("user", c_void_p), ("count", _CountFn),
                ("rewind", _RewindFn), ("next", _NextFn)]


class _Trainer(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("capabilities", c_uint32), ("user", c_void_p), ("train", _TrainFn),
                ("evaluate", _TrainFn)]


class _Progress(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("phase", c_int32), ("task_id", c_char_p), ("round", c_uint64),
                ("bytes_down", c_uint64), ("bytes_up", c_uint64), ("fraction", c_double), ("loss", c_double)]


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("log_level", c_int32), ("join_string", c_char_p), ("endpoint", c_char_p),
                ("population", c_char_p), ("app_version", c_char_p), ("storage_dir", c_char_p),
                ("policy_json", c_char_p), ("require_charging", c_uint8), ("require_idle", c_uint8),
                ("require_unmetered", c_uint8), ("reserved", c_uint8), ("min_battery", c_float), ("max_cpu", c_float),
                ("max_threads", c_uint32), ("max_memory", c_uint64), ("max_storage", c_uint64),
                ("max_bytes_per_day", c_uint64), ("max_seconds_per_run", c_uint32),
                ("min_seconds_between_runs", c_uint32), ("device", c_char_p), ("proxy", c_char_p)]


class _Outcome(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("status", c_int32), ("code", c_int32), ("retry_after_s", c_uint32),
                ("round", c_uint64), ("num_examples", c_uint64), ("bytes_down", c_uint64), ("bytes_up", c_uint64),
                ("message", ctypes.c_char * 256)]


_StateFn = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(_DeviceState))
_ProgressFn = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(_Progress))
_OutcomeFn = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(_Outcome))
_LogFn = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
_StepFn = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_int32, c_char_p, c_char_p)

_SIZES = {_Tensor: 40, _Batch: 64, _DeviceState: 16, _DataSource: 40, _Trainer: 32, _Progress: 56, _Options: 120,
          _Outcome: 304}
_ABI_VERSION = 1
_FUNCTIONS = {  # name: (result, arguments)
    "skep_abi_version": (c_uint32, []),
    "skep_version": (c_char_p, []),
    "skep_status_name": (c_char_p, [c_int32]),
    "skep_explain": (c_char_p, [c_int32]),
    "skep_status_json": (c_int32, [c_void_p, c_void_p, ctypes.POINTER(c_size_t), c_void_p]),
    "skep_history_json": (c_int32, [c_void_p, c_void_p, ctypes.POINTER(c_size_t), c_void_p]),
    "skep_diagnose": (c_int32, [c_void_p, _StepFn, c_void_p]),
    "skep_options_init": (None, [c_void_p, c_size_t]),
    "skep_client_new": (c_int32, [c_void_p, c_void_p, c_void_p, ctypes.POINTER(c_void_p), c_void_p]),
    "skep_client_free": (None, [c_void_p]),
    "skep_client_on_device_state": (c_int32, [c_void_p, _StateFn, c_void_p]),
    "skep_client_on_progress": (c_int32, [c_void_p, _ProgressFn, c_void_p]),
    "skep_client_on_outcome": (c_int32, [c_void_p, _OutcomeFn, c_void_p]),
    "skep_client_on_log": (c_int32, [c_void_p, _LogFn, c_void_p]),
    "skep_client_enrol": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "skep_client_run_once": (c_int32, [c_void_p, c_uint32, c_void_p]),
    "skep_client_start": (c_int32, [c_void_p]),
    "skep_client_stop": (None, [c_void_p]),
    "skep_client_cancel": (None, [c_void_p]),
    "skep_client_forget": (c_int32, [c_void_p]),
    "skep_client_history_json": (c_int32, [c_void_p, c_void_p, ctypes.POINTER(c_size_t)]),
    "skep_client_status_json": (c_int32, [c_void_p, c_void_p, ctypes.POINTER(c_size_t)]),
    "skep_task_kind": (c_int32, [c_void_p]),
    "skep_task_id": (c_char_p, [c_void_p]),
    "skep_task_round": (c_uint64, [c_void_p]),
    "skep_task_seed": (c_uint64, [c_void_p, c_uint32]),
    "skep_task_check": (c_int32, [c_void_p]),
    "skep_task_number": (c_double, [c_void_p, c_char_p, c_double]),
    "skep_task_text": (c_char_p, [c_void_p, c_char_p, c_char_p]),
    "skep_task_rewind": (c_int32, [c_void_p, c_uint64]),
    "skep_task_next": (c_int32, [c_void_p, c_size_t, ctypes.POINTER(_Batch)]),
    "skep_task_progress": (None, [c_void_p, c_double, c_double]),
    "skep_task_metric": (c_int32, [c_void_p, c_char_p, c_double]),
    "skep_task_fail": (None, [c_void_p, c_char_p]),
}


def _load():
    for structure, size in _SIZES.items():
        if ctypes.sizeof(c_void_p) == 8 and ctypes.sizeof(structure) != size:
            raise ImportError(f"skep: {structure.__name__} has {ctypes.sizeof(structure)} bytes, not {size}: "
                              "this system lays structures out in a way that skep.py does not know")
    try:
        library = ctypes.CDLL("libskep-client.so.1")
    except OSError as e:
        raise ImportError(f"skep: {e}; install the package libskep-client1") from e
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    if library.skep_abi_version() != _ABI_VERSION:
        raise ImportError(f"skep: the library has ABI {library.skep_abi_version()}, skep.py is for {_ABI_VERSION}: "
                          "install the same version of libskep-client1 and python3-skep-client")
    return library


_lib = _load()

_F32, _F16, _BF16, _I8, _I32, _I64, _U8 = range(1, 8)
_FORMATS = {_F32: "f", _F16: "e", _BF16: "H", _I8: "b", _I32: "i", _I64: "q", _U8: "B"}  # of struct, and of NumPy


def _text(value) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def _known(kind, value):
    """A member of the enumeration, or the number itself where a newer library knows more."""
    try:
        return kind(value)
    except ValueError:
        return value


def version() -> str:
    """The version of the library, like "0.1.0"."""
    return _text(_lib.skep_version())


def explain(code: int) -> str | None:
    """What SKEP-nnnn means and what to do about it, or None if there is no such number."""
    found = _lib.skep_explain(code)
    return None if found is None else _text(found)


# --- Options, and looking at a folder without a client ---------------------------------------------


def _options(values) -> _Options:
    """The options with these (name, value); None leaves the library's default. Strings live as long as it does."""
    options = _Options()
    _lib.skep_options_init(ctypes.byref(options), ctypes.sizeof(options))
    for name, value in values:
        if name in ("storage_dir", "policy_json") and value is not None and not isinstance(value, str):
            value = os.fspath(value) if name == "storage_dir" else json.dumps(value)
        if name == "storage_dir":
            value = os.path.expanduser(value)
        if value is not None:
            setattr(options, name, os.fsencode(value) if isinstance(value, str) else value)
    return options


def _text_of(get, check):
    """A text of unknown length, as the ..._json calls give it."""
    size = c_size_t(0)
    buffer = ctypes.create_string_buffer(1)
    status = get(None, ctypes.byref(size))
    while status == Status.E_BUFFER:  # the text may have grown since it was measured
        buffer = ctypes.create_string_buffer(size.value)
        status = get(buffer, ctypes.byref(size))
    check(status)
    return buffer.raw[:size.value].decode("utf-8")


def _of_folder(get, storage_dir):
    options = _options([("storage_dir", storage_dir)])
    why_not = _Outcome(struct_size=ctypes.sizeof(_Outcome))

    def check(status):
        if status != 0:
            raise Error(status, why_not.code, _text(why_not.message))
    return json.loads(_text_of(lambda buffer, size: get(ctypes.byref(options), buffer, size, ctypes.byref(why_not)),
                               check))


def status(storage_dir) -> dict:
    """What Client.status says of a folder; a client, of this process or another, may be at work in it. Raises Error:
    Status.E_STORAGE where it is no folder of a client's."""
    return _of_folder(_lib.skep_status_json, storage_dir)


def history(storage_dir) -> list:
    """What Client.history says of a folder; as status."""
    return _of_folder(_lib.skep_history_json, storage_dir)["contributions"]


def diagnose(storage_dir, tell=None, **options) -> list:
    """Tries what a check-in needs, one step after the other up to the first that fails; contributes nothing. The Steps;
    `tell` gets each as it is done. Options are those of skep/skep.h, such as proxy=..., require_idle=0. What `tell`
    raises is raised again at the end."""
    steps = []
    errors = []

    def hear(_, name, code, found, advice):
        steps.append(Step(_text(name), code, _text(found), _text(advice)))
        try:
            if tell is not None and not errors:
                tell(steps[-1])
        except BaseException as e:  # must not pass through the library
            errors.append(e)
    known = {name for name, _ in _Options._fields_} - {"struct_size", "reserved", "storage_dir"}
    for name in options:
        if name not in known:
            raise TypeError(f"skep_options has no {name!r}; there are {', '.join(sorted(known))}")
    _lib.skep_diagnose(ctypes.byref(_options([("storage_dir", storage_dir), *options.items()])), _StepFn(hear), None)
    if errors:
        raise errors[0]
    return steps


# --- Batches from Python to the library -----------------------------------------------------------


class _Block:
    """Rows in memory that the library may read while this object lives."""

    def __init__(self, keep, address, dtype, rows, cols):
        self.keep = keep
        self.address = address
        self.dtype = dtype
        self.rows = rows
        self.cols = cols


def _pack(values, is_label) -> _Block:
    return (_pack_plain if numpy is None else _pack_numpy)(values, is_label)


def _pack_numpy(values, is_label):
    values = numpy.asarray(values)
    if is_label:
        dtype = _I64 if values.dtype.kind in "iub" else _F32
    elif values.dtype in (numpy.uint8, numpy.float16):
        dtype = _U8 if values.dtype == numpy.uint8 else _F16
    else:
        dtype = _I32 if values.dtype.kind in "iu" else _F32
    if values.dtype.kind not in "iubf":
        raise TypeError(f"{'y' if is_label else 'X'} has elements of type {values.dtype}; numbers are needed")
    packed = numpy.ascontiguousarray(values, dtype=_FORMATS[dtype])
    rows = len(packed)
    return _Block(packed, packed.ctypes.data, dtype, rows, packed.size // max(rows, 1))


def _pack_plain(values, is_label):
    rows = list(values)
    if rows and isinstance(rows[0], (bytes, bytearray)) and not is_label:
        keep, dtype = array.array("B", b"".join(rows)), _U8
    else:
        flat = [v for row in rows for v in row] if rows and hasattr(rows[0], "__len__") else rows
        if is_label and all(isinstance(v, int) for v in flat):
            keep, dtype = array.array("q", flat), _I64
        elif rows and isinstance(rows[0], array.array) and rows[0].typecode == "i":
            keep, dtype = array.array("i", flat), _I32
        else:
            keep, dtype = array.array("f", flat), _F32
    width = len(rows[0]) if rows and hasattr(rows[0], "__len__") else 1
    for i, row in enumerate(rows):
        if (len(row) if hasattr(row, "__len__") else 1) != width:
            raise ValueError(f"row {i} of a batch has another width than the first, {width}")
    return _Block(keep, keep.buffer_info()[0], dtype, len(rows), width)


def _length(values) -> int:
    return len(values)


def _pick(values, indices):
    if numpy is not None:
        return values[indices]
    return [values[i] for i in indices]


class _Arrays:
    """(X, y) or (X, y, weights), shuffled for each epoch."""

    def __init__(self, parts):
        self._parts = [p if numpy is None else numpy.asarray(p) for p in parts]
        lengths = {_length(p) for p in self._parts}
        if len(lengths) != 1:
            raise ValueError(f"X, y and weights have {', '.join(str(_length(p)) for p in self._parts)} rows: "
                             "give each as many")
        self._rows = lengths.pop()
        self._order = []
        self._at = 0

    def count(self, task):
        return self._rows

    def rewind(self, task, seed):
        self._order = list(range(self._rows))
        random.Random(seed).shuffle(self._order)
        self._at = 0

    def next(self, task, max_rows):
        chosen = self._order[self._at:self._at + max_rows]
        self._at += len(chosen)
        return tuple(_pick(p, chosen) for p in self._parts) if chosen else None


class _Batches:
    """Batches of any size from an iterator, which `make` gives anew for each epoch."""

    def __init__(self, make):
        self._make = make  # of the task
        self._iterator = iter(())
        self._rest = None
        self._rows = None

    def count(self, task):
        if self._rows is None:
            self._rows = sum(_length(batch[0]) for batch in self._make(task))
        return self._rows

    def rewind(self, task, seed):
        self._iterator = iter(self._make(task))
        self._rest = None

    def next(self, task, max_rows):
        while self._rest is None or _length(self._rest[0]) == 0:
            self._rest = next(self._iterator, None)
            if self._rest is None:
                return None
        rest = self._rest
        self._rest = tuple(part[max_rows:] for part in rest)
        return tuple(part[:max_rows] for part in rest)


class _Source:
    """What the application gave as `data`, as an object with count, rewind and next."""

    def __init__(self, data):
        self._data = data
        self._is_custom = all(hasattr(data, name) for name in ("count", "rewind", "next"))
        self._view = None  # of the task that _source was made for
        self._key = None
        self._source = None

    def for_task(self, pointer):
        """(the view of the task, its source). The view is the same in all calls of a task, so that an iterator may
        use it; whoever called sets its pointer to None again when the call is over."""
        view = TaskView(pointer)
        key = (view.id, view.round, view.evaluating)
        if key != self._key:
            self._source = self._data if self._is_custom else self._adapt(view)
            self._view, self._key = view, key
        self._view._pointer = pointer
        return self._view, self._source

    def forget(self):
        """Lets go of what was made for a task."""
        self._view = self._key = self._source = None

    def _adapt(self, task):
        given = self._data(task) if callable(self._data) else self._data
        if given is None:
            return _Batches(lambda _: ())
        if isinstance(given, tuple):
            if len(given) not in (2, 3):
                raise ValueError(f"data is a tuple of {len(given)}: give (X, y) or (X, y, weights)")
            return _Arrays(given)
        if not callable(self._data):
            if iter(given) is given:
                raise TypeError("data is an iterator, which can be used only once: give a function that makes one")
            return _Batches(lambda _: given)
        first = [given]  # spares one call, as the first iterator is made already
        return _Batches(lambda task: first.pop() if first else self._data(task))


# --- Tasks ----------------------------------------------------------------------------------------


class TaskView:
    """What a data source may know of the task. Valid during the call that received it."""

    def __init__(self, pointer):
        self._pointer = pointer

    def _alive(self):
        if self._pointer is None:
            raise RuntimeError("this task is over: it lives only during the call that received it")
        return self._pointer

    @property
    def id(self) -> str:
        return _text(_lib.skep_task_id(self._alive()))

    @property
    def round(self) -> int:
        return _lib.skep_task_round(self._alive())

    @property
    def evaluating(self) -> bool:
        """Held-out examples are asked for."""
        return _lib.skep_task_kind(self._alive()) == 2

    def number(self, key: str, otherwise: float = 0.0) -> float:
        """A value of the plan, such as "client.learning_rate"; skep/skep.h lists the keys."""
        return _lib.skep_task_number(self._alive(), key.encode(), otherwise)

    def text(self, key: str, otherwise: str = "") -> str:
        fallback = otherwise.encode()
        return _text(_lib.skep_task_text(self._alive(), key.encode(), fallback))


class Task(TaskView):
    """What a trainer works with. Valid during the call that received it."""

    def __init__(self, pointer):
        super().__init__(pointer)
        self.examples = 0  # distinct examples that batches() gave: what train may return

    def check(self) -> None:
        """Raises Stopped if the run has to end. At least every 250 ms for a trainer with its own loader."""
        self._pass(_lib.skep_task_check(self._alive()))

    def progress(self, fraction: float, loss: float = math.nan) -> None:
        """Share of the work done, 0 to 1, and the latest loss."""
        _lib.skep_task_progress(self._alive(), fraction, loss)

    def metric(self, name: str, value: float) -> None:
        """A result such as "accuracy"; at most 32, and only those that the plan lists leave the device."""
        status = _lib.skep_task_metric(self._alive(), name.encode(), value)
        if status != 0:
            raise Error(status, 0, f"metric {name!r} is one too many: a task has at most 32")

    def seed(self, epoch: int) -> int:
        return _lib.skep_task_seed(self._alive(), epoch)

    def epoch(self, number: int = 0, batch_size: int | None = None):
        """Iterates over one epoch of the application's data: (x, y, weights), where weights may be None.
        x is of shape (rows, columns), y of shape (rows,) or (rows, columns). Copies. Raises Stopped."""
        size = batch_size or int(self.number("client.batch_size", 32))
        self._pass(_lib.skep_task_rewind(self._alive(), self.seed(number)))
        rows = 0
        batch = _Batch(struct_size=ctypes.sizeof(_Batch))
        while True:
            self._pass(_lib.skep_task_next(self._alive(), size, ctypes.byref(batch)))
            if batch.rows == 0:
                return
            rows += batch.rows
            self.examples = max(self.examples, rows)
            yield _copies(batch)

    def batches(self, batch_size: int | None = None):
        """All that the plan asks for: its epochs or its steps, or one epoch in an evaluation. As epoch()."""
        steps = 0 if self.evaluating else int(self.number("client.local_steps"))
        epochs = 1 if self.evaluating else int(self.number("client.local_epochs", 1))
        done = 0
        number = 0
        while done < steps or (steps == 0 and number < epochs):
            before = done
            for batch in self.epoch(number, batch_size):
                yield batch
                done += 1
                if done == steps:
                    return
            if done == before:
                return  # an empty epoch: there is nothing to go on with
            number += 1

    @staticmethod
    def _pass(status):
        if status != 0:
            raise Stopped(status)


def _copies(batch):
    x = _copy(batch.x, batch.x_dtype, (batch.rows, batch.x_cols))
    y = _copy(batch.y, batch.y_dtype, (batch.rows, batch.y_cols) if batch.y_cols != 1 else (batch.rows,))
    weights = _copy(batch.example_weight, _F32, (batch.rows,)) if batch.example_weight else None
    return x, y, weights


def _copy(address, dtype, shape):
    form = _FORMATS[dtype]
    data = bytearray(ctypes.string_at(address, math.prod(shape) * _width(form)))
    return _view(data, form, shape)


def _width(form) -> int:
    return {"f": 4, "e": 2, "H": 2, "b": 1, "i": 4, "q": 8, "B": 1}[form]


def _view(buffer, form, shape):
    if numpy is not None:
        return numpy.ndarray(shape, numpy.dtype(form), buffer=buffer)
    view = memoryview(buffer).cast("B")
    return view.cast("H" if form == "e" else form, shape=shape) if shape and 0 not in shape else view


class _Model(dict):
    """The tensors of a model by name, as views of the library's memory."""

    def __init__(self, tensors, count, is_writable):
        super().__init__()
        self._owners = []
        for tensor in tensors[:count]:
            shape = tuple(tensor.shape[:tensor.rank])
            owner = (ctypes.c_char * tensor.nbytes).from_address(tensor.data)
            view = _view(owner, _FORMATS[tensor.dtype], shape)
            if not is_writable and numpy is not None:
                view.flags.writeable = False
            elif not is_writable:
                view = view.toreadonly()
            self[_text(tensor.name)] = view
            self._owners.append(owner)

    def retire(self, error):
        """Empties the views. The name of a tensor of which something was kept, or None."""
        # The object in front is referred to as often as a view that nobody kept.
        views = [("", object()), *self.items()]
        self._owners.insert(0, object())
        self.clear()
        kept = self._kept(views)
        if kept is not None:  # by what is only garbage, or by the frames that an error came through?
            if error is not None:
                traceback.clear_frames(error.__traceback__)
            gc.collect()
            kept = self._kept(views)
        if numpy is not None:
            for _, view in views[1:]:
                view.__setstate__((1, (0,), view.dtype, False, b""))
        return kept

    def _kept(self, views):
        usual = None
        for i, (name, view) in enumerate(views):
            if numpy is not None:  # derived views refer to this one
                references = sys.getrefcount(view)
            else:  # and these to its owner
                if i > 0:
                    view.release()
                references = sys.getrefcount(self._owners[i])
            usual = references if usual is None else usual
            if references > usual:
                return name
        return None


# --- The client -----------------------------------------------------------------------------------


def _outcome(o) -> Outcome:
    return Outcome(_known(Status, o.status), o.code, o.retry_after_s, o.round, o.num_examples, o.bytes_down,
                   o.bytes_up, _text(o.message))


class _State:
    """What the library's callbacks use. Does not know the Client, which can so be collected."""

    def __init__(self, data, trainer):
        self.handle = c_void_p()
        self.source = _Source(data)
        self.train = getattr(trainer, "train", trainer)
        self.evaluate = getattr(trainer, "evaluate", None)
        self.callbacks = {}
        self.error = None             # the first exception of the run
        self.callback_thread = None   # the thread that is in a callback
        self._held = None             # the blocks of the latest batch
        self.data_source = _DataSource(ctypes.sizeof(_DataSource), 0, None, _CountFn(self._count),
                                       _RewindFn(self._rewind), _NextFn(self._next))
        self.trainer = None
        if trainer is not None:
            if not callable(self.train):
                raise TypeError("trainer is neither a function nor an object with a method train")
            evaluate = _TrainFn(self._evaluate) if self.evaluate is not None else _TrainFn()
            self.trainer = _Trainer(ctypes.sizeof(_Trainer), int(getattr(trainer, "capabilities", 0)), None,
                                    _TrainFn(self._train), evaluate)
        self.hooks = {
            "on_device_state": (_lib.skep_client_on_device_state, _StateFn(self._on_device_state)),
            "on_progress": (_lib.skep_client_on_progress, _ProgressFn(self._on_progress)),
            "on_outcome": (_lib.skep_client_on_outcome, _OutcomeFn(self._on_outcome)),
            "on_log": (_lib.skep_client_on_log, _LogFn(self._on_log)),
        }

    def _guard(self, status, task, function):
        """Calls a function of the application; what it raises becomes `status`."""
        outer, self.callback_thread = self.callback_thread, threading.get_ident()
        try:
            return function()
        except Stopped as e:
            return e.status
        except BaseException as e:  # nothing may pass through C; KeyboardInterrupt may come anywhere
            if self.error is None:
                self.error = e
            if task is not None:
                _lib.skep_task_fail(task, f"{type(e).__name__}: {e}".encode("utf-8", "replace"))
            if not isinstance(e, Exception):
                _lib.skep_client_cancel(self.handle)
            return Status.E_MEMORY if isinstance(e, MemoryError) else status
        finally:
            self.callback_thread = outer

    def _with_source(self, pointer, work):
        def call():
            view, source = self.source.for_task(pointer)
            try:
                return work(view, source)
            finally:
                view._pointer = None
        return self._guard(Status.E_DATA, pointer, call)

    def _count(self, _, task):
        return int(self._with_source(task, lambda view, source: int(source.count(view))))

    def _rewind(self, _, task, seed):
        def rewind(view, source):
            source.rewind(view, seed)
            return 0
        return self._with_source(task, rewind)

    def _next(self, _, task, max_rows, out):
        def fill(view, source):
            parts = source.next(view, max_rows)
            if parts is None:
                out[0].rows = 0
                return 0
            x, y = _pack(parts[0], False), _pack(parts[1], True)
            weights = None
            if len(parts) > 2 and parts[2] is not None:
                weights = _pack([float(w) for w in parts[2]], False)
            if y.rows != x.rows or (weights is not None and weights.rows != x.rows):
                raise ValueError(f"a batch has {x.rows} rows of X, but {y.rows} of y"
                                 + (f" and {weights.rows} of weights" if weights is not None else ""))
            self._held = (x, y, weights)
            b = out[0]
            b.x, b.x_dtype, b.x_cols, b.rows = x.address, x.dtype, x.cols, x.rows
            b.y, b.y_dtype, b.y_cols = y.address, y.dtype, y.cols
            b.example_weight = weights.address if weights is not None else None
            return 0
        return self._with_source(task, fill)

    def _train(self, _, task, tensors, count, num_examples):
        return self._with_model(self.train, task, _Model(tensors, count, True), num_examples)

    def _evaluate(self, _, task, tensors, count, num_examples):
        return self._with_model(self.evaluate, task, _Model(tensors, count, False), num_examples)

    def _with_model(self, function, pointer, model, num_examples):
        task = Task(pointer)

        def work():
            examples = function(task, model)
            if examples is None:
                raise TypeError("the trainer returned None: return the number of distinct examples it used")
            num_examples[0] = int(examples)
            return 0
        before = self.error
        status = self._guard(Status.E_TRAINER, pointer, work)
        task._pointer = None
        kept = model.retire(self.error)
        if kept is not None and self.error is before:
            def complain():
                raise RuntimeError(f"the trainer kept a view of {kept!r}, whose memory is the library's: "
                                   "keep a copy of it")
            status = self._guard(Status.E_TRAINER, pointer, complain)
        return status

    def _on_device_state(self, _, out):
        def ask():
            state = self.callbacks["on_device_state"]()
            for name in ("charging", "idle", "unmetered", "thermal_ok"):
                value = getattr(state, name)
                setattr(out[0], name, -1 if value is None else int(bool(value)))
            out[0].battery_level = -1.0 if state.battery_level is None else state.battery_level
        self._guard(None, None, ask)

    def _on_progress(self, _, p):
        def tell():
            self.callbacks["on_progress"](Progress(_known(Phase, p[0].phase), _text(p[0].task_id), p[0].round,
                                                   p[0].bytes_down, p[0].bytes_up, p[0].fraction, p[0].loss))
        self._guard(None, None, tell)

    def _on_outcome(self, _, outcome):
        self._guard(None, None, lambda: self.callbacks["on_outcome"](_outcome(outcome[0])))

    def _on_log(self, _, level, line):
        self._guard(None, None, lambda: self.callbacks["on_log"](_known(LogLevel, level), _text(line)))

    def after_run(self):
        """Lets go of the run's data, and raises what the application's functions raised in it."""
        self.source.forget()
        self._held = None
        error, self.error = self.error, None
        if error is not None:
            raise error

    def close(self):
        handle, self.handle = self.handle, c_void_p()
        if self.callback_thread == threading.get_ident():
            # The last reference went away inside a callback, where the library cannot wait for its end.
            threading.Thread(target=_lib.skep_client_free, args=(handle,)).start()
        else:
            _lib.skep_client_free(handle)


class _CancelOnSignal:
    """Cancels the run at SIGINT and SIGTERM. Python calls its handlers only when the library has returned; a thread
    that the C part of the signal handling wakes up makes it return."""

    def __init__(self, cancel):
        self._cancel = cancel
        self._thread = None

    def __enter__(self):
        if threading.current_thread() is not threading.main_thread():
            return
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._previous = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def __exit__(self, *_):
        if self._thread is None:
            return
        signal.set_wakeup_fd(self._previous)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def _watch(self):
        while True:
            try:
                numbers = self._reader.recv(64)
            except socket.timeout:
                self._cancel()  # again: the first may have come before the run had begun
                continue
            if not numbers:
                return
            if self._previous >= 0:
                os.write(self._previous, numbers)
            if signal.SIGINT in numbers or signal.SIGTERM in numbers:
                self._cancel()
                self._reader.settimeout(0.1)


class _Callback:
    """An attribute whose assignment tells the library; None removes the callback."""

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, client, owner=None):
        return self if client is None else client._state.callbacks.get(self._name)

    def __set__(self, client, function):
        client._set_callback(self._name, function)


class Client:
    """One enrolled device: one storage_dir. Opening it needs no network; a device enrols at its first run.

    data, trainer   see the module
    join            the join string from the operator; enrols this device once, may stay set afterwards
    storage_dir     a folder of mode 0700 on a local disk, made if missing; "~" is the home folder
    endpoint        "HOST:PORT", optional, must then agree with the enrolment
    population      required only if the enrolment covers several
    app_version     the application's, told to the aggregator
    policy          the least this device insists on: a dict or JSON with "privacy" and "secure_aggregation"
    proxy           "http://HOST:PORT"
    require_...     conditions on the device; an unknown state does not meet a required one [all True]
    min_battery     share of a full one, ignored while charging [0.3]
    max_...         limits of a run: cpu as a share of a core [0.7], threads [1], memory [256 MiB] and storage
                    [512 MiB] in bytes, bytes_per_day [64 MiB], seconds_per_run [600]
    min_seconds_between_runs   after a contribution [900]
    device          "auto", "cpu" or "cuda:N", for the library's own training
    log_level       the least important LogLevel that on_log gets [INFO]
    on_...          as the attributes of the same names; None means the library's default throughout

    Raises Error: Status.E_ARGUMENT, E_BUSY (another client has the folder), E_STORAGE.
    """

    on_device_state = _Callback()  # () -> DeviceState; replaces the library's own probes
    on_progress = _Callback()      # (Progress) -> None
    on_outcome = _Callback()       # (Outcome) -> None, after every run, also those of start
    on_log = _Callback()           # (LogLevel, str) -> None

    def __init__(self, *, data, storage_dir, join=None, trainer=None, endpoint=None, population=None, app_version=None,
                 policy=None, proxy=None, require_charging=None, require_idle=None, require_unmetered=None,
                 min_battery=None, max_cpu=None, max_threads=None, max_memory=None, max_storage=None,
                 max_bytes_per_day=None, max_seconds_per_run=None, min_seconds_between_runs=None, device=None,
                 log_level=None, on_device_state=None, on_progress=None, on_outcome=None, on_log=None):
        options = _options((
            ("join_string", join and join.strip()), ("endpoint", endpoint), ("population", population),
            ("app_version", app_version), ("storage_dir", storage_dir), ("policy_json", policy), ("proxy", proxy),
            ("require_charging", require_charging), ("require_idle", require_idle),
            ("require_unmetered", require_unmetered), ("min_battery", min_battery), ("max_cpu", max_cpu),
            ("max_threads", max_threads), ("max_memory", max_memory), ("max_storage", max_storage),
            ("max_bytes_per_day", max_bytes_per_day), ("max_seconds_per_run", max_seconds_per_run),
            ("min_seconds_between_runs", min_seconds_between_runs), ("device", device), ("log_level", log_level)))
        state = _State(data, trainer)
        why_not = _Outcome(struct_size=ctypes.sizeof(_Outcome))
        status = _lib.skep_client_new(ctypes.byref(options), ctypes.byref(state.data_source),
                                      ctypes.byref(state.trainer) if state.trainer else None,
                                      ctypes.byref(state.handle), ctypes.byref(why_not))
        if status != 0:
            raise Error(status, why_not.code, _text(why_not.message))
        self._state = state
        self._free = weakref.finalize(self, _State.close, state)  # also at the end of the interpreter
        for name, function in (("on_device_state", on_device_state), ("on_progress", on_progress),
                               ("on_outcome", on_outcome), ("on_log", on_log)):
            if function is not None:
                setattr(self, name, function)

    def enrol(self, name: str = "") -> Outcome:
        """Enrols now, by the join string, instead of at the first run. The operator sees `name` beside the device. On
        the main thread SIGINT and SIGTERM cancel it, as run_once. Status.OK also if it is enrolled already."""
        handle = self._handle()
        outcome = _Outcome(struct_size=ctypes.sizeof(_Outcome))
        with _CancelOnSignal(self.cancel):
            _lib.skep_client_enrol(handle, os.fsencode(name), ctypes.byref(outcome))
        return _outcome(outcome)

    def run_once(self, budget: float = 600) -> Outcome:
        """One check-in on this thread, for at most `budget` seconds. On the main thread SIGINT (Ctrl-C) and
        SIGTERM cancel it; then their handlers run, which for SIGINT raises KeyboardInterrupt. Raises what the
        application's functions raised."""
        handle = self._handle()
        outcome = _Outcome(struct_size=ctypes.sizeof(_Outcome))
        with _CancelOnSignal(self.cancel):
            status = _lib.skep_client_run_once(handle, min(max(int(budget), 0), 0xFFFFFFFF), ctypes.byref(outcome))
        if status != Status.E_BUSY:  # else another run is on, and its data are in use
            self._state.after_run()
        return _outcome(outcome)

    def start(self) -> None:
        """Starts a thread of the library's that checks in again and again, until stop."""
        self._check(_lib.skep_client_start(self._handle()))

    def stop(self) -> None:
        """Ends what start began, and waits for it. Raises what the application's functions raised meanwhile."""
        handle = self._handle()
        if self._state.callback_thread == threading.get_ident():
            raise RuntimeError("stop waits for the run, which waits for this callback: call cancel")
        _lib.skep_client_stop(handle)
        self._state.after_run()

    def cancel(self) -> None:
        """Ends the run that is on. Any thread, also in a callback; not in a signal handler's C part."""
        handle = self._state.handle
        if handle:
            _lib.skep_client_cancel(handle)

    def forget(self) -> None:
        """Withdraws: wipes keys, cache and history. Afterwards the client can only be closed."""
        self._check(_lib.skep_client_forget(self._handle()))

    def history(self) -> list:
        """What was contributed, newest first."""
        return self._json(_lib.skep_client_history_json)["contributions"]

    def status(self) -> dict:
        """Enrolment, next check-in, last outcome, today's bytes, eligibility."""
        return self._json(_lib.skep_client_status_json)

    def close(self) -> None:
        """Cancels, waits, and lets go of storage_dir. Once more does nothing."""
        if self._state.callback_thread == threading.get_ident():
            raise RuntimeError("close waits for the run, which waits for this callback: call cancel")
        self._free()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind, *_) -> None:
        try:
            if kind is None:
                self.stop()
        finally:
            self.close()

    def _handle(self):
        if not self._state.handle:
            raise RuntimeError("this client is closed")
        return self._state.handle

    @staticmethod
    def _check(status):
        if status != 0:
            raise Error(status, 0, _text(_lib.skep_status_name(status)))

    def _set_callback(self, name, function):
        set_hook, trampoline = self._state.hooks[name]
        handle = self._handle()
        self._check(set_hook(handle, type(trampoline)(), None))  # during a run the old function must stay
        self._state.callbacks[name] = function
        if function is not None:
            self._check(set_hook(handle, trampoline, None))

    def _json(self, get):
        handle = self._handle()
        return json.loads(_text_of(lambda buffer, size: get(handle, buffer, size), self._check))
