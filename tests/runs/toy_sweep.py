"""A sweep in a process of its own, to be killed: python toy_sweep.py STORE WHERE RUNS STEPS SECONDS LOG."""

import sys

from toy_runs import run, toys

from lae_core.runs.sweep import sweep

if __name__ == "__main__":
    store, where, runs, steps, seconds, log = sys.argv[1:]
    report = sweep(toys(int(runs), int(steps), float(seconds), log), store=store, where=where, run=run)
    print(len(report.ran), len(report.found), len(report.meanwhile), len(report.failures))
