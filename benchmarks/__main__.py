"""Answers all questions, prints a table and writes JSON."""

import argparse
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import numba
import numpy as np

from benchmarks import (
    cores,
    deploying,
    generated,
    latency,
    many_patterns,
    matching,
    peers,
    planning,
    simulating,
    spark,
    states,
    strata,
    thousand_nodes,
    whole_way,
)
from shedlight import __version__


def main() -> int:
    """Run the benchmarks; the status is 1 if a figure does not keep its limit."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "only", nargs="*", help="questions whose names have one of these in them"
    )
    parser.add_argument("--json", type=Path, default=Path("results/bench.json"))
    wanted = parser.parse_args()
    questions = [
        question
        for module in (
            whole_way,
            matching,
            many_patterns,
            generated,
            deploying,
            planning,
            thousand_nodes,
            strata,
            simulating,
            spark,
            cores,
            states,
            latency,
            peers,
        )
        for question in module.QUESTIONS
        if not wanted.only or any(word in question.__name__ for word in wanted.only)
    ]
    answers = []
    print(f"{'question':<58}{'figure':>9}  {'limit':>8}")
    for question in questions:
        for answer in question():
            answers.append(answer)
            sign = ">=" if answer.at_least else "<="
            limit = "" if answer.limit is None else f"{sign} {answer.limit:g}"
            mark = "" if answer.holds else "  DOES NOT HOLD"
            print(
                f"{answer.question:<58}{answer.figure:>9.2f}  {limit:>8}{mark}  {answer.detail}"
            )
            sys.stdout.flush()
    wanted.json.parent.mkdir(parents=True, exist_ok=True)
    versions = {
        "shedlight": __version__,
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
    }
    rows = [asdict(answer) | {"holds": answer.holds} for answer in answers]
    wanted.json.write_text(json.dumps({"versions": versions, "answers": rows}, indent=2) + "\n")
    print(f"-> {wanted.json}")
    return 0 if all(answer.holds for answer in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
