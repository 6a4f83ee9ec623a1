"""How long `import causalrag` takes, and each module of it, in a fresh process.

`make bench` prints one row per import: the median of several runs less the median of starting
Python alone, both in milliseconds, and the ratio to `import numpy`. The budget for the package
is 1,000 ms.
"""

from __future__ import annotations

import pkgutil
import statistics
import subprocess
import sys
import time

import causalrag

RUNS = 5


def milliseconds(code: str) -> float:
    """Return the median time of a line in a fresh Python, after one run to warm the disk."""
    times = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times[1:])


def main() -> None:
    bare = milliseconds("pass")
    numpy = milliseconds("import numpy") - bare
    modules = sorted(m.name for m in pkgutil.walk_packages(causalrag.__path__, "causalrag."))
    print(f"Python alone {bare:.0f} ms; import numpy {numpy:.0f} ms more; {RUNS} runs each, median")
    print(f"{'import':32} {'ms':>7} {'/ numpy':>8}")
    for name in ["causalrag", *modules]:
        own = milliseconds(f"import {name}") - bare
        print(f"{name:32} {own:7.0f} {own / numpy:8.2f}")


if __name__ == "__main__":
    main()
