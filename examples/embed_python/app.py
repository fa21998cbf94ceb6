#!/usr/bin/env python3
"""A Python application whose device takes part. The library trains; NumPy is welcome, not needed.

    app.py --join-file join.txt --storage state             until SIGTERM
    app.py --join-file join.txt --storage state --once      one check-in, for a scheduler
    app.py --join-file join.txt --storage state --forget    withdraws
"""

import argparse
import signal
import sys

import skep


def readings():
    """The application's own data: four vibration values of a machine a reading, and whether a bearing was worn.
    Made up here, so that the project runs as it is: put your own in their place. The library shuffles them."""
    is_worn = [i % 2 for i in range(412)]
    x = [[(i * 37 + j * 11) % 100 / 100 + is_worn[i] * 0.5 for j in range(4)] for i in range(412)]
    return x, is_worn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--join-file", required=True)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--forget", action="store_true")
    arguments = parser.parse_args()
    ends = (signal.SIGINT, signal.SIGTERM)
    if not arguments.once:
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # in every thread: sigwait, below, asks for them
    try:
        with open(arguments.join_file, encoding="utf-8") as file:
            join = file.read()
    except FileNotFoundError:
        join = None  # not needed once the device is enrolled
    told = []

    def tell(outcome):
        enrolment = client.status().get("enrolment")
        if not told and enrolment:
            told.append(enrolment["device"][:6])
            print(f"joined as device {told[0]} · ", end="")
        print(f"SKEP-{outcome.code}: " if outcome.failed else "", end="")
        print(f"{outcome.message} · next in {outcome.retry_after} s", flush=True)

    with skep.Client(join=join, storage_dir=arguments.storage, data=lambda task: readings(), device="cpu",
                     require_idle=False, require_unmetered=False, min_seconds_between_runs=0,
                     on_outcome=tell) as client:
        if arguments.forget:
            client.forget()
            return 0
        if arguments.once:
            return 1 if client.run_once(300).failed else 0
        client.start()
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except skep.Error as error:
        sys.exit(f"SKEP-{error.code}: {error}")
