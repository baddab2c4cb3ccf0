"""Measures what opening a session costs, for each plugin in a process of its own: the first time, and the next."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

CONFIG: dict[str, dict[str, object]] = {
    "record": {"path": "proof.jsonl", "overwrite": True},
    "otel": {"file": "otlp"},
    "rerun": {"connections": ["file:proof.rrd"], "overwrite": True},
}
TIMES = 3


def main() -> None:
    """Print a line for each plugin, and one for none."""
    for name in ("", "record", "console", "otel", "gpu", "rerun"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, __file__, name], cwd=folder, check=True, stderr=subprocess.DEVNULL)


def measure(name: str) -> None:
    """Open a session with one plugin several times; print milliseconds of wall clock and processor."""
    import proofstream

    tables = {name: CONFIG[name]} if name in CONFIG else {}
    costs: list[str] = []
    for _ in range(TIMES):
        wall, processor = time.perf_counter(), time.process_time()
        session = proofstream.open_session(plugins=[name] if name else [], config=tables)
        opened = time.perf_counter() - wall
        session.flush(60)
        ready, used = time.perf_counter() - wall, time.process_time() - processor
        wall = time.perf_counter()
        session.close()
        closed = time.perf_counter() - wall
        costs.append(" ".join(f"{seconds * 1e3:5.0f}" for seconds in (opened, ready, used, closed)))
    print(f"{name or 'none':8} opened, ready, processor, closed in ms: {' | '.join(costs)}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        main()
