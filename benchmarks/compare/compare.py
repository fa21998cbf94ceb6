"""Times one training step by this project and by its peers, in turns; see scripts/compare --help.

Every side is a process that stays alive, has one thread on one and the same processor, and is told
over a pipe how many steps to run. Turns go A B A B ...: ours, then one variant of a peer. A ratio is
the peer's CPU time for a step over ours in the same pair, so above 1 is in our favour; its median
counts. Before that both sides train the same first steps and their weights are compared.

Only the standard library: the peers' Python is another one.
"""
import argparse
import array
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [(name, batch) for name, batches in (("softmax", (10, 50)), ("2nn", (10, 50)), ("fedavg-cnn", (10, 32, 50)),
                                             ("char-lstm", (10, 50)), ("resnet8", (10, 50))) for batch in batches]
# (case, batch, peer): what must be reached, and what is aimed at.
TARGETS = {("softmax", 10, "torch"): (10, None), ("softmax", 50, "torch"): (5, None),
           ("2nn", 10, "torch"): (3, 5), ("2nn", 50, "torch"): (2, 3),
           ("fedavg-cnn", 10, "torch"): (1.2, 1.7), ("fedavg-cnn", 50, "torch"): (1.1, 1.5),
           ("char-lstm", 10, "torch"): (1.5, 2.5), ("char-lstm", 50, "torch"): (1.5, 2.5),
           ("softmax", 10, "jax"): (1, 1.4), ("softmax", 50, "jax"): (1, 1.4),
           ("2nn", 10, "jax"): (1, 1.4), ("2nn", 50, "jax"): (1, 1.4)}
SAME_STEPS = 20  # before weights are compared
LARGEST_DIFFERENCE = 1e-4  # of any weight
BUSY = 1.5  # load average above which figures are called those of a busy machine


class Failure(Exception):
    pass


def environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "MKL_", "OMP_", "XLA_", "JAX_"))}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        kept[name] = "1"
    return dict(kept, CUDA_VISIBLE_DEVICES="", PYTHONWARNINGS="ignore", TF_CPP_MIN_LOG_LEVEL="3")


class Worker:
    """A side that is kept alive; one command a line, one line of JSON back."""

    def __init__(self, name, command, log):
        self.name = name
        processor = max(os.sched_getaffinity(0))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                        env=environment(), preexec_fn=lambda: os.sched_setaffinity(0, {processor}))
        self.about = self.ask("about")

    def ask(self, *words):
        try:
            print(*words, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failure(f"{self.name}: ended with {self.process.wait()} at \"{words[0]}\"")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(f"{self.name}: {answer['error']}")
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def read_weights(worker, variant, folder):
    path = os.path.join(folder, "trained.f32")
    worker.ask("weights", variant, path)
    return read_floats(path)


def read_floats(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def largest_difference(a, b):
    if len(a) != len(b):
        raise Failure(f"{len(a)} weights and {len(b)}")
    # A difference that is no number must not look small.
    return max(abs(p - q) if p == p and q == q else float("inf") for p, q in zip(a, b))


def turn(worker, variant, steps):
    worker.ask("reset", variant)
    return worker.ask("run", variant, steps)


def steps_for(worker, variant, seconds):
    """As many steps as take about so long. Each number of steps is run twice, as the first time may compile."""
    steps = 1
    while True:
        turn(worker, variant, steps)
        cpu = turn(worker, variant, steps)["cpu"]
        if cpu > seconds / 10 or steps >= 1000:
            return max(1, int(seconds / cpu * steps))
        steps *= 10


class Side:
    """One variant of a worker on one case."""

    def __init__(self, worker, variant, folder, seconds):
        self.worker, self.variant = worker, variant
        worker.ask("open", variant, folder)
        worker.ask("run", variant, SAME_STEPS)
        self.weights = read_weights(worker, variant, folder)
        self.steps = steps_for(worker, variant, seconds)
        turn(worker, variant, self.steps)

    def microseconds(self):
        """A step's CPU and wall time, over one turn."""
        took = turn(self.worker, self.variant, self.steps)
        return took["cpu"] / self.steps * 1e6, took["wall"] / self.steps * 1e6

    def close(self):
        self.worker.ask("close", self.variant)


def compare(ours, peer, pairs):
    turns = [(ours.microseconds(), peer.microseconds()) for _ in range(pairs)]
    ratios = [theirs[0] / own[0] for own, theirs in turns]
    return {"ours_us": statistics.median(own[0] for own, _ in turns),
            "peer_us": statistics.median(theirs[0] for _, theirs in turns),
            "peer_wall_us": statistics.median(theirs[1] for _, theirs in turns),
            "ratio": statistics.median(ratios), "smallest": min(ratios), "largest": max(ratios),
            "difference": largest_difference(ours.weights, peer.weights)}


def floor_of(work, ceilings):
    """What arithmetic alone, and what reading and writing the weights alone would take, in microseconds."""
    return {"flops": work["flops"], "weight_bytes": work["weight_bytes"], "gflops": ceilings["gflops"],
            "gbytes": ceilings["gbytes"], "arithmetic_us": work["flops"] * 1e-3 / ceilings["gflops"],
            "memory_us": work["weight_bytes"] * 1e-3 / ceilings["gbytes"]}


def measure_case(name, batch, own, peers, options):
    with tempfile.TemporaryDirectory() as folder:
        work = own.ask("make", name, batch, folder)
        ceilings = own.ask("ceilings", options.isa, 4 * work["parameters"])
        ours = Side(own, options.isa, folder, options.turn)
        initial = read_floats(os.path.join(folder, "weights.f32"))
        result = {"case": name, "batch": batch, "parameters": work["parameters"], "floor": floor_of(work, ceilings),
                  "moved": largest_difference(ours.weights, initial), "peers": []}
        print_case(result)
        for peer in peers:
            for variant in peer.ask("variants", folder)["variants"]:
                row = {"peer": peer.about["peer"], "version": peer.about["version"], "variant": variant}
                side = Side(peer, variant, folder, options.turn)
                row.update(compare(ours, side, options.pairs))
                side.close()
                result["peers"].append(row)
                print_row(row)
        ours.close()
        result["ours_us"] = statistics.median(row["ours_us"] for row in result["peers"])
        print_own(result)
    return result


def print_case(result):
    print(f"\n{result['case']}, B {result['batch']}: {result['parameters']:,} parameters; the first {SAME_STEPS} steps "
          f"move a weight by up to {result['moved']:.1e}")
    print(f"  {'peer':40} {'us a step':>11} {'ours':>9} {'ratio':>7} {'from':>6} {'to':>6}   weights differ by", flush=True)


def print_row(row):
    name = f"{row['peer']} {row['version']} {row['variant']}"
    note = "" if row["difference"] <= LARGEST_DIFFERENCE else "  TOO MUCH"
    print(f"  {name:40} {row['peer_us']:11.1f} {row['ours_us']:9.1f} {row['ratio']:7.2f} {row['smallest']:6.2f} "
          f"{row['largest']:6.2f}   {row['difference']:.1e}{note}", flush=True)


def print_own(result):
    floor, us = result["floor"], result["ours_us"]
    print(f"  ours {us:.1f} us, {floor['flops'] * 1e-3 / us:.0f} GFLOP/s; floor: {floor['flops'] * 1e-6:.2f} MFLOP at "
          f"{floor['gflops']:.0f} GFLOP/s {floor['arithmetic_us']:.1f} us, {floor['weight_bytes'] * 1e-6:.2f} MB of weights "
          f"at {floor['gbytes']:.0f} GB/s {floor['memory_us']:.1f} us", flush=True)


def kind_of(row):
    """Debian's torch is a torch. What has no autograd is reported beside it, not judged: nobody trains so."""
    name = row["peer"].split("-")[0]
    return name + " by hand" if row["variant"] == "by_hand" else name


def verdicts(results):
    """The fastest variant of each kind of peer decides, whatever build it comes from."""
    found = []
    for result in results:
        for kind in ("torch", "torch by hand", "jax"):
            rows = [row for row in result["peers"] if kind_of(row) == kind]
            if not rows:
                continue
            best = min(rows, key=lambda row: row["ratio"])
            bar, aim = TARGETS.get((result["case"], result["batch"], kind), (None, None))
            found.append({"case": result["case"], "batch": result["batch"], "kind": kind, "bar": bar, "aim": aim,
                          **{k: best[k] for k in ("peer", "version", "variant", "ratio", "smallest", "largest")},
                          "bar_is_met": bar is None or best["ratio"] >= bar,
                          "aim_is_met": aim is None or best["ratio"] >= aim})
    return found


def print_verdicts(found):
    print(f"\nthe best variant of each peer\n  {'case':16} {'peer':38} {'ratio':>6}  {'from':>5} {'to':>5}   target")
    for v in found:
        target = "reported"
        if v["bar"] is not None:
            target = f"{v['bar']:g}x {'met' if v['bar_is_met'] else 'MISSED'}"
        if v["aim"] is not None:
            target += f", aim {v['aim']:g}x {'met' if v['aim_is_met'] else 'not reached'}"
        name = f"{v['peer']} {v['version']} {v['variant']}"
        print(f"  {v['case'] + ' B ' + str(v['batch']):16} {name:38} {v['ratio']:6.2f}  {v['smallest']:5.2f} "
              f"{v['largest']:5.2f}   {target}")


def parse_cases(text):
    wanted = []
    for word in text.split(","):
        name, _, batch = word.partition(":")
        matching = [case for case in CASES if case[0] == name and batch in ("", str(case[1]))]
        if not matching:
            raise argparse.ArgumentTypeError(f"no case \"{word}\"; there are " + ", ".join(f"{n}:{b}" for n, b in CASES))
        wanted += matching
    return wanted


def parse_options():
    parser = argparse.ArgumentParser(prog="compare", allow_abbrev=False)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--torch-python")
    parser.add_argument("--debian-python")
    parser.add_argument("--jax-python")
    parser.add_argument("--cases", type=parse_cases, default=CASES)
    parser.add_argument("--isa", default="")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.3)
    parser.add_argument("--json")
    parser.add_argument("--log", default=os.devnull)
    options = parser.parse_args()
    if options.pairs < 1 or options.turn <= 0:
        parser.error("--pairs and --turn are above 0")
    return options


def start(options, log):
    own = Worker("skep", [options.worker], log)
    options.isa = options.isa or own.about["variants"][0]
    peers = []
    for name, python, script in (("torch", options.torch_python, "torch"), ("torch-debian", options.debian_python, "torch"),
                                 ("jax", options.jax_python, "jax")):
        if python:
            peers.append(Worker(name, [python, os.path.join(HERE, script + "_worker.py")], log))
            peers[-1].about["peer"] = name
    if not peers:
        raise Failure("no peer: --torch-python, --debian-python or --jax-python")
    return own, peers


def run(options):
    load = os.getloadavg()[0]
    with open(options.log, "w", encoding="utf-8") as log:
        own, peers = start(options, log)
        today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        print(f"{today}; {own.about['processor']}, one thread of one processor; isa {options.isa}, {own.about['compiler']}; "
              + ", ".join(f"{p.about['peer']} {p.about['version']} (Python {p.about['python']})" for p in peers))
        print(f"CPU time; medians of {options.pairs} pairs of turns of about {options.turn:g} s; load average {load:.1f}")
        results = [measure_case(name, batch, own, peers, options) for name, batch in options.cases]
        for worker in [own, *peers]:
            worker.end()
    found = verdicts(results)
    print_verdicts(found)
    busiest = max(load, os.getloadavg()[0])
    if busiest > BUSY:
        print(f"\nthe machine was busy (load average {busiest:.1f}): measure again on an idle one")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"date": today, "about": own.about, "isa": options.isa, "peers": [p.about for p in peers],
                       "pairs": options.pairs, "turn_s": options.turn, "load_average": busiest,
                       "compared_steps": SAME_STEPS, "results": results, "verdicts": found}, file, indent=1)
            file.write("\n")
    are_equal = all(row["difference"] <= LARGEST_DIFFERENCE for result in results for row in result["peers"])
    return 0 if are_equal and all(v["bar_is_met"] for v in found) else 1


if __name__ == "__main__":
    try:
        sys.exit(run(parse_options()))
    except Failure as failure:
        sys.exit(f"compare: {failure}")
