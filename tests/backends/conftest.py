"""The real Collector, Jaeger and Prometheus, with the configuration that is shipped, on free ports of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).parents[2]
READY_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0
ARRIVES_WITHIN_S = 30.0

_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

Span = dict[str, Any]
T = TypeVar("T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the backends."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.backends)


def eventually(look: Callable[[], T], *, within_s: float = ARRIVES_WITHIN_S) -> T:
    """What ``look`` returns once it is true; fails with what it returned last."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s; last: {found!r}"
        time.sleep(0.1)
    return found


def get(url: str, **parameters: str) -> Any:
    """The JSON that an HTTP API answers, whatever its status; None if it cannot be reached."""
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    try:
        with _open(url + query, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.loads(error.read() or b"null")
    except OSError:
        return None


def answers(url: str) -> bool:
    """Whether a URL is there and content."""
    try:
        with _open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_ports(count: int) -> list[str]:
    """Addresses on the loopback interface that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return addresses


class Backend:
    """A program that can be stopped, killed and started again on the same ports with the same data."""

    def __init__(self, words: list[str | Path], *, env: Mapping[str, str], ready: str, log: Path) -> None:
        self._words = [str(word) for word in words]
        self._env = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")} | dict(env)
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None
        self.log = log

    def start(self) -> None:
        """Start it and wait until it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while not answers(self._ready):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"{self._words[0]} did not start:\n{self.log.read_text('utf-8', 'replace')[-4000:]}")
            time.sleep(0.1)

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None

    def stop(self) -> None:
        """End it as a service manager does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as the kernel does when memory is short."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_WITHIN_S)
            pytest.fail(f"{self._words[0]} was still there {STOP_WITHIN_S:g} s after {how.name}")


@dataclass
class Jaeger:
    """Keeps traces."""

    backend: Backend
    otlp: str
    """Address of its OTLP receiver, gRPC."""
    url: str
    """Of its user interface and API."""

    def trace(self, trace_id: str) -> list[Span]:
        """The spans of a trace, as OTLP JSON; none if it is not known."""
        answer: dict[str, Any] = get(f"{self.url}/api/v3/traces/{trace_id}", raw_traces="true") or {}
        return [
            {**span, "resource": group["resource"]}
            for group in answer.get("result", {}).get("resourceSpans", [])
            for scope in group["scopeSpans"]
            for span in scope["spans"]
        ]


@dataclass(frozen=True)
class Sample:
    """A value that Prometheus answered."""

    value: float
    labels: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Prometheus:
    """Keeps metrics."""

    backend: Backend
    url: str
    promtool: Path

    @property
    def otlp(self) -> str:
        """Base URL of its OTLP receiver."""
        return f"{self.url}/api/v1/otlp"

    def query(self, promql: str) -> list[Sample]:
        """The samples that a query gives now; no histograms."""
        data = self._ask("query", promql)
        if data["resultType"] == "scalar":
            return [Sample(float(data["result"][1]))]
        return [Sample(float(one["value"][1]), dict(one["metric"])) for one in data["result"] if "value" in one]

    def exemplars(self, promql: str, *, last_s: float = 3600.0) -> list[dict[str, str]]:
        """The labels of the exemplars of the series that a query names."""
        now = time.time()
        found = self._ask("query_exemplars", promql, start=str(now - last_s), end=str(now + 60))
        return [one["labels"] for series in found for one in series["exemplars"]]

    def _ask(self, what: str, promql: str, **parameters: str) -> Any:
        answer: dict[str, Any] = get(f"{self.url}/api/v1/{what}", query=promql, **parameters) or {}
        assert answer.get("status") == "success", f"{promql}: {answer}"
        return answer["data"]


@dataclass
class Collector:
    """Takes everything and passes it on."""

    backend: Backend
    otlp_http: str
    """For ``--otlp``."""
    otlp_grpc: str
    """For ``--otlp``."""
    spool: Path
    """The folder that its otlp_json_file receivers read."""
    state: Path
    """The folder with its queues, and ``logs.jsonl``."""


@dataclass
class Finished:
    """A command that has ended."""

    status: int
    err: str


class Command:
    """Runs proofstream as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_", "TRACEPARENT"))}
        self.env = {**kept, "NO_PROXY": "127.0.0.1"}

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start it, with a pipe on its standard input."""
        return subprocess.Popen(
            [sys.executable, "-m", "proofstream", *map(str, words)],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(self, *words: str | Path, stdin: str = "") -> Finished:
        """Run it to its end."""
        process = self.start(*words)
        _, err = process.communicate(stdin, timeout=90)
        return Finished(process.returncode, err)


def spans_in(folder: Path) -> list[Span]:
    """The spans of an ``--otlp-file`` folder, with their resource."""
    lines = [line for path in sorted(folder.glob("traces*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    return [
        {**span, "resource": group["resource"]}
        for line in lines
        for group in json.loads(line)["resourceSpans"]
        for scope in group["scopeSpans"]
        for span in scope["spans"]
    ]


def _plain(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [_plain(one) for one in content.get("values", [])]
    if kind == "stringValue" and content.startswith("["):  # Jaeger keeps lists as their text, in Go's notation
        with contextlib.suppress(ValueError):
            return json.loads(content)
    return int(content) if kind == "intValue" else content


def _table(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["key"]: _plain(one["value"]) for one in attributes}


def comparable(span: Span) -> dict[str, Any]:
    """A span without what OTLP JSON allows to be written in several ways."""
    status = span.get("status", {})
    return {
        "name": span["name"],
        "trace": span["traceId"],
        "id": span["spanId"],
        "parent": span.get("parentSpanId", ""),
        "start": int(span["startTimeUnixNano"]),
        "end": int(span["endTimeUnixNano"]),
        "status": (status.get("code", 0), status.get("message", "")),
        "attributes": _table(span.get("attributes", [])),
        "events": [
            (event["name"], int(event["timeUnixNano"]), _table(event.get("attributes", [])))
            for event in span.get("events", [])
        ],
        "links": [(link["traceId"], link["spanId"]) for link in span.get("links", [])],
        "resource": _table(span["resource"]["attributes"]),
    }


def by_id(spans: list[Span]) -> dict[str, dict[str, Any]]:
    """Spans that can be compared, by their ids."""
    return {span["spanId"]: comparable(span) for span in spans}


def assert_stored(jaeger: Jaeger, sent: list[Span]) -> None:
    """Every span that was sent is in Jaeger, once and as it was, and nothing else is in its traces."""
    assert sent
    for trace_id in sorted({span["traceId"] for span in sent}):
        expected = by_id([span for span in sent if span["traceId"] == trace_id])
        stored = eventually(lambda: _complete(jaeger.trace(trace_id), len(expected)))  # noqa: B023 - called here
        assert len(stored) == len(expected)
        found = by_id(stored)
        for span_id, span in expected.items():
            assert found[span_id] == _as_jaeger_keeps(span, found[span_id])


def _as_jaeger_keeps(span: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Jaeger takes a span without length for one of negative length, makes it 1 ns long and says so."""
    if span["start"] != span["end"]:
        return span
    warning = {"@jaeger@warnings": stored["attributes"].get("@jaeger@warnings")}
    return {**span, "end": span["end"] + 1, "attributes": {**span["attributes"], **warning}}


def _complete(spans: list[Span], count: int) -> list[Span]:
    return spans if len(spans) >= count else []


@pytest.fixture(scope="session")
def backends() -> Path:
    """The folder with the programs. People may do without; CI may not."""
    found = subprocess.run([ROOT / "scripts" / "backends", "--where"], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return Path(found.stdout.strip())
    if os.environ.get("CI"):
        pytest.fail(found.stderr)
    pytest.skip(found.stderr.strip())


@pytest.fixture(scope="session")
def jaeger(backends: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """Jaeger with deploy/jaeger.yaml."""
    folder = tmp_path_factory.mktemp("jaeger")
    otlp, query, query_grpc, health = free_ports(4)
    backend = Backend(
        [backends / "jaeger", "--config", ROOT / "deploy" / "jaeger.yaml"],
        env={
            "JAEGER_OTLP": otlp,
            "JAEGER_QUERY": query,
            "JAEGER_QUERY_GRPC": query_grpc,
            "JAEGER_HEALTH": health,
            "JAEGER_DATA": str(folder),
        },
        ready=f"http://{health}/status",
        log=folder / "log",
    )
    backend.start()
    yield Jaeger(backend, otlp, f"http://{query}")
    backend.stop()


@pytest.fixture(scope="session")
def prometheus(backends: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus with deploy/prometheus.yaml."""
    folder = tmp_path_factory.mktemp("prometheus")
    (address,) = free_ports(1)
    backend = Backend(
        [
            backends / "prometheus",
            f"--config.file={ROOT / 'deploy' / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--web.enable-otlp-receiver",
            "--enable-feature=exemplar-storage",
        ],
        env={},
        ready=f"http://{address}/-/ready",
        log=folder / "log",
    )
    backend.start()
    yield Prometheus(backend, f"http://{address}", backends / "promtool")
    backend.stop()


@pytest.fixture(scope="session")
def collector(
    backends: Path, jaeger: Jaeger, prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Collector]:
    """The Collector with otel-collector.yaml, between proofstream and the other two."""
    folder = tmp_path_factory.mktemp("otelcol")
    grpc, http, health = free_ports(3)
    (folder / "spool").mkdir()
    backend = Backend(
        [backends / "otelcol", "--config", ROOT / "otel-collector.yaml"],
        env={
            "OTELCOL_GRPC": grpc,
            "OTELCOL_HTTP": http,
            "OTELCOL_HEALTH": health,
            "OTELCOL_SPOOL": str(folder / "spool"),
            "OTELCOL_STATE": str(folder / "state"),
            "OTELCOL_SPANMETRICS_INTERVAL": "1s",
            "OTELCOL_TELEMETRY_INTERVAL": "1000",
            "JAEGER_OTLP": jaeger.otlp,
            "PROMETHEUS_OTLP": prometheus.otlp,
        },
        ready=f"http://{health}",
        log=folder / "log",
    )
    backend.start()
    yield Collector(backend, f"http://{http}", f"grpc://{grpc}", folder / "spool", folder / "state")
    backend.stop()


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The command, in the test's folder."""
    return Command(tmp_path)


@pytest.fixture(scope="session")
def kit() -> Any:
    """The functions above, for tests: this folder is no package that they could import from."""
    return sys.modules[__name__]
