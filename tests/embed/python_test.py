#!/usr/bin/env python3
"""skep.py over the library without a network (stub_client.h has the words of its script).

    python_test.py --with-numpy|--without-numpy [-v]

NumPy can be hidden, so that both ways are tested on a machine that has it.
"""

import array
import gc
import importlib
import json
import math
import os
import signal
import sys
import threading
import traceback
import unittest

HIDES_NUMPY = sys.argv.pop(1) == "--without-numpy"
if HIDES_NUMPY:
    sys.modules["numpy"] = None  # importing it fails

import skep  # noqa: E402

numpy = skep.numpy
if numpy is None and not HIDES_NUMPY:
    print("SKIPPED: NumPy is not installed")
    sys.exit(77)
ROWS = 100


def needs_numpy(test):
    return unittest.skipIf(numpy is None, "NumPy is hidden")(test)


def rows(n=ROWS):
    return [[float(i), -float(i)] for i in range(n)], [i % 10 for i in range(n)]


class Case(unittest.TestCase):
    def client(self, script="", data=None, storage_dir="device", **options):
        ready = {"require_charging": False, "require_idle": False, "require_unmetered": False, "min_battery": 0,
                 "log_level": skep.LogLevel.DEBUG}
        client = skep.Client(data=rows() if data is None else data, storage_dir=storage_dir, endpoint=script,
                             **{**ready, **options})
        self.addCleanup(client.close)
        return client


class Folders(Case):
    def test_a_folder_is_looked_at_without_a_client(self):
        self.assertEqual(skep.status("~/device")["storage_dir"], os.path.expanduser("~/device"))
        self.assertEqual(skep.history("device"), [])

    def test_a_diagnosis_tells_each_step_and_ends_at_the_first_fault(self):
        told = []
        steps = skep.diagnose("device", told.append, require_idle=0)
        self.assertEqual(steps, [skep.Step("folder", 0, "device", ""),
                                 skep.Step("tcp", 3001, "cannot reach it", "start it")])
        self.assertEqual(told, steps)

    def test_what_the_listener_of_a_diagnosis_raises_is_raised_again(self):
        with self.assertRaisesRegex(ValueError, "folder"):
            skep.diagnose("device", lambda step: (_ for _ in ()).throw(ValueError(step.name)))

    def test_an_option_that_there_is_not_is_named(self):
        with self.assertRaisesRegex(TypeError, "'idle'"):
            skep.diagnose("device", idle=0)

    def test_enrolling_comes_to_an_outcome(self):
        outcome = self.client().enrol("attic")
        self.assertEqual((outcome.status, outcome.message), (skep.Status.OK, "joined"))


class Loading(unittest.TestCase):
    def test_structures_of_another_size_are_refused(self):
        sizes = dict(skep._SIZES)
        skep._SIZES[skep._Batch] = 72
        try:
            with self.assertRaisesRegex(ImportError, "_Batch has 64 bytes, not 72"):
                skep._load()
        finally:
            skep._SIZES.update(sizes)

    def test_another_abi_is_refused(self):
        skep._ABI_VERSION, before = 2, skep._ABI_VERSION
        try:
            with self.assertRaisesRegex(ImportError, "ABI 1, skep.py is for 2"):
                skep._load()
        finally:
            skep._ABI_VERSION = before

    def test_names_and_numbers(self):
        self.assertEqual(skep.version(), "0.1.0")
        self.assertIn("not charging", skep.explain(7401))
        self.assertIsNone(skep.explain(1))
        for status in skep.Status:
            self.assertEqual(skep._text(skep._lib.skep_status_name(status)), "SKEP_" + status.name)

    def test_every_function_of_the_header_is_declared(self):
        with open("client/embed/symbols.txt", encoding="utf-8") as file:
            self.assertEqual(sorted(skep._FUNCTIONS), file.read().split())


class Runs(Case):
    def test_a_run_tells_what_it_came_to(self):
        outcome = self.client("retry=45").run_once(60)
        self.assertEqual(outcome.status, skep.Status.OK)
        self.assertTrue(outcome.contributed)
        self.assertFalse(outcome.failed)
        self.assertEqual((outcome.round, outcome.num_examples, outcome.retry_after), (1, ROWS, 45))
        self.assertEqual(outcome.message, "round 1 contributed to")

    def test_runs_that_come_to_nothing_are_results(self):
        outcome = self.client("status=-1 code=3001").run_once()
        self.assertIs(outcome.status, skep.Status.E_NETWORK)
        self.assertTrue(outcome.failed)
        self.assertEqual(outcome.code, 3001)

    def test_a_status_of_a_newer_library_is_a_number(self):
        outcome = self.client("status=77").run_once()
        self.assertEqual(outcome.status, 77)
        self.assertFalse(outcome.failed or outcome.contributed)

    def test_every_option_arrives(self):
        client = skep.Client(
            join="skep-join:abc\n", data=rows(), storage_dir="~/device", endpoint="epochs=1", population="pump",
            app_version="2.4.1", policy={"privacy": {"max_epsilon": 2}}, proxy="http://proxy:3128",
            require_charging=False, require_idle=True, require_unmetered=False, min_battery=0.5, max_cpu=0.25,
            max_threads=3, max_memory=17 << 20, max_storage=18 << 20, max_bytes_per_day=19 << 20,
            max_seconds_per_run=300, min_seconds_between_runs=7, device="cuda:1", log_level=skep.LogLevel.WARNING)
        self.addCleanup(client.close)
        options = client.status()["options"]
        self.assertEqual(json.loads(options.pop("policy_json")), {"privacy": {"max_epsilon": 2}})
        self.assertEqual(options, {
            "join_string": "skep-join:abc", "storage_dir": os.path.expanduser("~/device"), "endpoint": "epochs=1",
            "population": "pump", "app_version": "2.4.1", "proxy": "http://proxy:3128", "require_charging": 0,
            "require_idle": 1, "require_unmetered": 0, "min_battery": 0.5, "max_cpu": 0.25, "max_threads": 3,
            "max_memory": 17 << 20, "max_storage": 18 << 20, "max_bytes_per_day": 19 << 20, "max_seconds_per_run": 300,
            "min_seconds_between_runs": 7, "device": "cuda:1", "log_level": 1})

    def test_what_is_not_given_is_the_librarys_default(self):
        client = skep.Client(data=rows(), storage_dir="device")
        self.addCleanup(client.close)
        options = client.status()["options"]
        self.assertEqual((options["require_charging"], options["max_seconds_per_run"], options["device"]),
                         (1, 600, "auto"))

    def test_misuse_is_raised_with_its_number(self):
        with self.assertRaisesRegex(skep.Error, "max_cpu is out of range") as caught:
            self.client(max_cpu=2.0)
        self.assertEqual((caught.exception.status, caught.exception.code), (skep.Status.E_ARGUMENT, 7001))
        self.client()
        with self.assertRaises(skep.Error) as caught:
            self.client()
        self.assertIs(caught.exception.status, skep.Status.E_BUSY)

    def test_history_and_forget(self):
        client = self.client()
        self.assertEqual(client.history(), [])
        client.run_once()
        client.run_once()
        self.assertEqual([entry["round"] for entry in client.history()], [2, 1])
        self.assertEqual(client.status()["last"], {"status": "SKEP_OK", "code": 0})
        client.forget()
        self.assertEqual(client.run_once().code, 7004)
        with self.assertRaises(skep.Error):
            client.history()

    def test_a_context_closes_and_frees_the_folder(self):
        with self.client() as client:
            client.run_once()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            client.run_once()
        client.close()
        client.cancel()
        self.client()

    def test_a_client_that_nobody_holds_frees_the_folder(self):
        client = skep.Client(data=rows(), storage_dir="unheld")
        client.run_once
        del client
        gc.collect()
        self.client(storage_dir="unheld")


class Callbacks(Case):
    def test_progress_outcome_and_log(self):
        client = self.client()
        phases, outcomes, lines = [], [], []
        client.on_progress = lambda p: phases.append(p.phase)
        client.on_outcome = outcomes.append
        client.on_log = lambda level, line: lines.append((level, line))
        outcome = client.run_once()
        self.assertEqual(phases[0], skep.Phase.CHECK_IN)
        self.assertEqual(phases[-1], skep.Phase.UPLOAD)
        self.assertEqual(outcomes, [outcome])
        self.assertEqual(lines, [(skep.LogLevel.INFO, "checking in")])
        client.on_progress = client.on_outcome = client.on_log = None
        client.run_once()
        self.assertEqual(len(outcomes), 1)
        self.assertIsNone(client.on_outcome)

    def test_device_state(self):
        client = self.client(require_charging=True, on_device_state=skep.DeviceState)
        self.assertEqual(client.run_once().message, "charging: unknown")
        client.on_device_state = lambda: skep.DeviceState(charging=True, battery_level=0.5)
        self.assertTrue(client.run_once().contributed)

    def test_within_a_run_the_client_is_busy(self):
        client = self.client()
        seen = []

        def progress(_):
            seen.append(client.run_once().status)
            with self.assertRaises(skep.Error):
                client.on_outcome = print
            with self.assertRaisesRegex(RuntimeError, "call cancel"):
                client.close()
        client.on_progress = progress
        self.assertTrue(client.run_once().contributed)
        self.assertEqual(set(seen), {skep.Status.E_BUSY})

    def test_what_a_callback_raises_comes_after_the_run(self):
        client = self.client()
        client.on_progress = lambda p: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            client.run_once()
        self.assertEqual(len(client.history()), 1)
        client.on_progress = None
        self.assertTrue(client.run_once().contributed)

    def test_start_and_stop(self):
        client = self.client()
        done = threading.Event()
        client.on_outcome = lambda outcome: done.set()
        client.start()
        self.assertTrue(done.wait(60))
        self.assertIs(client.run_once().status, skep.Status.E_BUSY)
        client.stop()
        done.clear()

        def outcome(_):
            done.set()
            raise LookupError("in the library's thread")
        client.on_outcome = outcome
        client.start()
        self.assertTrue(done.wait(60))
        with self.assertRaisesRegex(LookupError, "library's thread"):
            client.stop()

    def test_the_last_reference_may_go_away_in_a_callback(self):
        done = threading.Event()
        held = [skep.Client(data=rows(), storage_dir="unheld")]

        def outcome(_):
            held.clear()
            gc.collect()
            done.set()
        held[0].on_outcome = outcome
        held[0].start()
        self.assertTrue(done.wait(60))


class Cancelling(Case):
    def waiting(self, then):
        """A client in a run that waits; `then` is called on another thread once it does."""
        client = self.client("wait")
        client.on_progress = lambda p: p.phase == skep.Phase.WAIT and threading.Thread(target=then(client)).start()
        return client

    def test_from_another_thread(self):
        client = self.waiting(lambda client: client.cancel)
        self.assertIs(client.run_once().status, skep.Status.CANCELLED)

    def test_ctrl_c_while_the_library_waits(self):
        client = self.waiting(lambda client: lambda: os.kill(os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            client.run_once()
        self.assertEqual(client.status()["last"]["status"], "SKEP_CANCELLED")

    def test_ctrl_c_in_the_applications_own_code(self):
        def train(task, model):
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        client = self.client(trainer=train)
        with self.assertRaises(KeyboardInterrupt):
            client.run_once()

    def test_a_handler_of_sigterm_runs_after_the_run(self):
        called = []
        before = signal.signal(signal.SIGTERM, lambda *_: called.append(True))
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        client = self.waiting(lambda client: lambda: os.kill(os.getpid(), signal.SIGTERM))
        self.assertIs(client.run_once().status, skep.Status.CANCELLED)
        self.assertEqual(called, [True])

    def test_the_wakeup_descriptor_of_another_stays(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer)
        try:
            client = self.waiting(lambda client: lambda: os.kill(os.getpid(), signal.SIGINT))
            with self.assertRaises(KeyboardInterrupt):
                client.run_once()
            self.assertIn(signal.SIGINT, os.read(reader, 16))
            self.assertEqual(signal.set_wakeup_fd(before), writer)
        finally:
            os.close(reader)
            os.close(writer)

    def test_runs_on_other_threads_need_no_signals(self):
        client = self.client()
        outcomes = []
        thread = threading.Thread(target=lambda: outcomes.append(client.run_once()))
        thread.start()
        thread.join()
        self.assertTrue(outcomes[0].contributed)


class Data(Case):
    """What arrives, as seen by a trainer that keeps it."""

    def seen(self, data, script="", batch_size=None):
        batches = []

        def train(task, model):
            batches.extend(task.batches(batch_size))
            return max(task.examples, 1)
        with self.client(script, data, trainer=train) as client:
            outcome = client.run_once()
        self.assertEqual(outcome.status, skep.Status.OK, outcome)
        return batches

    def test_arrays_are_shuffled_and_complete(self):
        x, y = rows(70)
        weights = [i / 100 for i in range(70)]
        batches = self.seen((x, y, weights))
        self.assertEqual([len(b[1]) for b in batches], [32, 32, 6])
        order = [int(row[0]) for b in batches for row in b[0].tolist()]
        self.assertNotEqual(order, list(range(70)))
        self.assertEqual(sorted(order), list(range(70)))
        labels = [v for b in batches for v in b[1].tolist()]
        self.assertEqual(labels, [i % 10 for i in order])
        found = [v for b in batches for v in b[2].tolist()]
        for i, weight in zip(order, found):
            self.assertAlmostEqual(weight, i / 100, places=6)

    def test_epochs_differ_and_repeat(self):
        data = rows(40)
        first = [b[0].tolist() for b in self.seen(data, "epochs=2 batch=40")]
        again = [b[0].tolist() for b in self.seen(data, "epochs=2 batch=40")]
        self.assertEqual(len(first), 2)
        self.assertNotEqual(first[0], first[1])
        self.assertEqual(first, again)

    def test_iterators_of_batches_come_in_their_order_and_are_cut(self):
        calls = []

        def data(task):
            calls.append(task.evaluating)
            for start in (0, 50):  # the task can be used while iterating
                x, y = rows(50)
                yield [[row[0] + start + task.round - 1, row[1]] for row in x], y
        batches = self.seen(data, "epochs=2")
        self.assertEqual([len(b[1]) for b in batches], [32, 18, 32, 18] * 2)
        self.assertEqual([int(row[0]) for b in batches[:4] for row in b[0].tolist()], list(range(100)))
        self.assertEqual(len(calls), 4)  # count, the stub's look at one row, two epochs

    def test_a_list_of_batches(self):
        x, y = rows(20)
        self.assertEqual([len(b[1]) for b in self.seen([(x, y), (x[:5], y[:5])])], [20, 5])

    def test_an_object_with_count_rewind_and_next(self):
        class Source:
            def __init__(self):
                self.seeds = []

            def count(self, task):
                return 3

            def rewind(self, task, seed):
                self.seeds.append(seed)
                self.at = 0

            def next(self, task, max_rows):
                self.at += 1
                return ([[1.0], [2.0]], [0, 1]) if self.at <= 2 else None
        source = Source()
        client = self.client("batch=2", source)
        self.assertEqual(client.run_once().code, 7104)  # the stub's look at one row got two
        source.next = lambda task, max_rows: None
        self.assertEqual(client.run_once().status, skep.Status.E_TRAINER)
        self.assertGreaterEqual(len(source.seeds), 2)

    def test_types_of_elements(self):
        types = []

        def look(data):
            class Look(skep._State):
                def _next(self, a, task, max_rows, out):
                    status = super()._next(a, task, max_rows, out)
                    types.append((out[0].x_dtype, out[0].y_dtype, out[0].x_cols, out[0].y_cols))
                    return status
            before, skep._State = skep._State, Look
            try:
                with self.client("", data) as client:
                    self.assertTrue(client.run_once().contributed)
            finally:
                skep._State = before
            return types[0], types.clear()
        f32, i32, i64, u8 = skep._F32, skep._I32, skep._I64, skep._U8
        self.assertEqual(look(([[1.5, 2.0]], [1]))[0], (f32, i64, 2, 1))
        self.assertEqual(look(([1.5, 2.0], [0.5, 1.0]))[0], (f32, f32, 1, 1))
        self.assertEqual(look(([[1.5]], [[0.5, 1.0]]))[0], (f32, f32, 1, 2))
        if numpy is None:
            self.assertEqual(look(([b"abc", b"def"], [0, 1]))[0], (u8, i64, 3, 1))
            self.assertEqual(look(([array.array("i", [7, 8])], [1]))[0], (i32, i64, 2, 1))
        else:
            image = numpy.zeros((4, 1, 3, 3), numpy.uint8)
            self.assertEqual(look((image, numpy.zeros(4, numpy.uint8)))[0], (u8, i64, 9, 1))
            self.assertEqual(look((image.astype(numpy.float16), numpy.zeros(4)))[0], (skep._F16, f32, 9, 1))
            self.assertEqual(look((image.astype(numpy.int64), numpy.zeros((4, 1))))[0], (i32, f32, 9, 1))
            self.assertEqual(look((image.astype(bool), numpy.zeros(4, bool)))[0], (f32, i64, 9, 1))

    def test_no_data_sits_the_task_out(self):
        for data in (lambda task: None, lambda task: iter(()), ([], [])):
            with self.client("", data) as client:
                outcome = client.run_once()
            self.assertEqual((outcome.status, outcome.code), (skep.Status.NO_WORK, 7402))

    def test_what_data_raise_comes_after_the_run(self):
        lines = []

        def data(task):
            raise LookupError("disk of row 7 unreadable")
        client = self.client("", data, on_log=lambda level, line: lines.append((level, line)))
        with self.assertRaisesRegex(LookupError, "row 7"):
            client.run_once()
        self.assertIn((skep.LogLevel.DEBUG, "LookupError: disk of row 7 unreadable"), lines)
        self.assertEqual(client.status()["last"]["status"], "SKEP_E_DATA")

    def test_mistakes_are_named(self):
        for data, error, text in (
                (([[1.0]], [0, 1]), ValueError, "1, 2 rows"),
                (([[1.0]],), ValueError, "tuple of 1"),
                (iter([rows()]), TypeError, "only once"),
                (lambda task: [([[1.0]], [0, 1])], ValueError, "1 rows of X, but 2 of y")):
            with self.client("", data) as client, self.assertRaisesRegex(error, text):
                client.run_once()

    @needs_numpy
    def test_text_is_no_number(self):
        with self.client("", (["a"], [0])) as client, self.assertRaisesRegex(TypeError, "numbers are needed"):
            client.run_once()


def put(model, name, value):
    """Sets every element of a tensor."""
    if numpy is not None:
        model[name][...] = value
    else:
        flat = model[name].cast("B").cast("f")
        for i in range(len(flat)):
            flat[i] = value


class Training(Case):
    def test_tensors_by_name_changed_in_place(self):
        shapes = {}

        def train(task, model):
            shapes.update({name: tuple(tensor.shape) for name, tensor in model.items()})
            self.assertEqual(model["bias"].tolist(), [0.5] * 10)
            put(model, "weight", 2.0)
            task.progress(0.5, 0.25)
            return 7
        losses = []
        client = self.client(trainer=train, on_progress=lambda p: losses.append(p.loss))
        outcome = client.run_once()
        self.assertEqual((outcome.status, outcome.num_examples), (skep.Status.OK, 7))
        self.assertEqual(shapes, {"weight": (10, 2), "bias": (10,)})
        self.assertIn(0.25, losses)

    def test_the_memory_is_the_librarys(self):
        def train(task, model):
            put(model, "weight", math.nan)
            return 1
        self.assertIs(self.client(trainer=train).run_once().status, skep.Status.E_TRAINER)  # it saw the NaN

    def test_a_kept_tensor_is_emptied_and_refused(self):
        kept = []

        def train(task, model):
            kept.append(model["weight"])
            kept.append(model)
            return 1
        client = self.client(trainer=train)
        if numpy is None:
            self.assertTrue(client.run_once().contributed)  # a released memoryview is safe to keep
            with self.assertRaises(ValueError):
                kept[0].tolist()
        else:
            with self.assertRaisesRegex(RuntimeError, "kept a view of 'weight'"):
                client.run_once()
            self.assertEqual(kept[0].size, 0)
            self.assertEqual(client.status()["last"]["status"], "SKEP_E_TRAINER")
        self.assertEqual(kept[1], {})

    def test_a_kept_part_of_a_tensor_is_refused(self):
        kept = []

        def train(task, model):
            kept.append(model["bias"][2:5])
            return 1
        client = self.client(trainer=train)
        with self.assertRaisesRegex(RuntimeError, "kept a view of 'bias'"):
            client.run_once()

    def test_views_in_garbage_and_in_the_frames_of_an_error_are_let_go(self):
        def train(task, model):
            cycle = [model["weight"]]
            cycle.append(cycle)
            return 1
        self.assertTrue(self.client(trainer=train).run_once().contributed)

        def fail(task, model):
            part = model["weight"][0:1]
            raise LookupError(f"{len(part)} row")
        with self.client(trainer=fail, storage_dir="second") as client, self.assertRaisesRegex(LookupError, "1 row"):
            client.run_once()

    def test_the_task_is_over_after_the_call(self):
        tasks = []

        def train(task, model):
            tasks.append(task)
            return 1
        self.client(trainer=train).run_once()
        with self.assertRaisesRegex(RuntimeError, "this task is over"):
            tasks[0].check()

    def test_values_of_the_plan(self):
        seen = []

        def train(task, model):
            seen.extend([task.id, task.round, task.evaluating, task.number("client.learning_rate"),
                         task.number("training.unheard_of", -1), task.text("model.loss"), task.text("data.spec", "é")])
            return 1
        self.client(trainer=train).run_once()
        self.assertEqual(seen, ["stub-1", 1, False, 0.1, -1, "cross-entropy", "é"])

    def test_an_object_that_also_evaluates(self):
        class Trainer:
            capabilities = skep.CAN_PROXIMAL

            def train(self, task, model):
                raise AssertionError("not asked for")

            def evaluate(self, task, model):
                assert task.evaluating
                if numpy is not None:
                    assert not model["weight"].flags.writeable
                else:
                    assert model["weight"].readonly
                for _ in task.batches():
                    pass
                task.metric("accuracy", 0.75)
                return task.examples
        client = self.client("evaluate epochs=3", trainer=Trainer())
        self.assertEqual(client.status()["capabilities"], skep.CAN_PROXIMAL)
        self.assertEqual(client.run_once().num_examples, ROWS)
        self.assertEqual(client.history(), [{"round": 1, "kind": "evaluate", "examples": ROWS,
                                             "metrics": ["accuracy"]}])

    def test_a_function_declines_to_evaluate(self):
        outcome = self.client("evaluate", trainer=lambda task, model: 1).run_once()
        self.assertEqual((outcome.status, outcome.code), (skep.Status.NO_WORK, 2219))

    def test_steps_in_place_of_epochs(self):
        seen = []

        def train(task, model):
            seen.extend(len(y) for _, y, _ in task.batches())
            return task.examples
        outcome = self.client("epochs=0 steps=5", rows(70), trainer=train).run_once()
        self.assertEqual(seen, [32, 32, 6, 32, 32])
        self.assertEqual(outcome.num_examples, 70)

    def test_a_33rd_metric_is_refused(self):
        def train(task, model):
            for i in range(33):
                task.metric(f"m{i}", 1.0)
        client = self.client(trainer=train)
        with self.assertRaisesRegex(skep.Error, "'m32' is one too many"):
            client.run_once()

    def test_stopped_passes_through_the_trainer(self):
        client = None

        def train(task, model):
            client.cancel()
            for _ in task.batches():
                self.fail("a batch after cancel")
        client = self.client(trainer=train)
        self.assertIs(client.run_once().status, skep.Status.CANCELLED)

    def test_what_a_trainer_raises_comes_after_the_run(self):
        client = self.client(trainer=lambda task, model: None)
        with self.assertRaisesRegex(TypeError, "returned None"):
            client.run_once()
        with self.client(trainer=lambda task, model: 1 // 0, storage_dir="second") as second:
            try:
                second.run_once()
                self.fail("nothing was raised")
            except ZeroDivisionError as error:  # with the place in the application that raised it
                self.assertIn("<lambda>", [entry.name for entry in traceback.extract_tb(error.__traceback__)])
            self.assertEqual(second.status()["last"]["status"], "SKEP_E_TRAINER")
        with self.assertRaisesRegex(TypeError, "neither a function"):
            self.client(trainer=42, storage_dir="third")

    def test_memory_that_runs_out_is_told_apart(self):
        def train(task, model):
            raise MemoryError
        client = self.client(trainer=train)
        with self.assertRaises(MemoryError):
            client.run_once()
        self.assertEqual(client.status()["last"]["status"], "SKEP_E_MEMORY")


class Import(unittest.TestCase):
    @unittest.skipUnless(HIDES_NUMPY, "NumPy is in use")
    def test_the_module_needs_nothing_but_python(self):
        self.assertIsNone(importlib.reload(skep).numpy)


if __name__ == "__main__":
    unittest.main()
