"""The source ``demo:NAME``: proves a model on this machine, verifies the proof, and delivers the events as they happen.

So that a person can watch, it pauses between layers, outside of every LayerStart .. LayerEnd. ``?pace=SECONDS`` is the
sum of all pauses; ``?pace=0`` proves at full speed. Durations in the events are those of the work, without the pauses.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from urllib.parse import parse_qsl

from proofstream import Feed, Source, SourceRequest, UsageError

SCHEME = "demo"
MODELS = ("digits", "transformer")
DEFAULT_PACE_S = 2.5
LONGEST_PACE_S = 3600.0
SAMPLES = 10
"""How many digits the classifier can be shown."""

_LISTEN_S = 0.05
"""How often a pause looks whether it should end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoRequest:
    """What the user asked for.

    Attributes:
        model: The model's name.
        pace_s: The sum of all pauses between layers, in seconds.
        sample: Which digit to show to the classifier.
    """

    model: str
    pace_s: float = DEFAULT_PACE_S
    sample: int = 0


class Stopped(Exception):
    """The walk was told to stop."""


def parse(request: SourceRequest) -> DemoRequest:
    """Read ``demo:NAME?pace=SECONDS&sample=N``.

    Raises:
        UsageError: There is no such model, or the request says something that is not understood.
    """
    for flag, is_set in (("--follow", request.follow), ("--once", request.once)):
        if is_set:
            raise UsageError(f"{flag} is not for {request.uri}, which ends when its proof is verified")
    name, _, query = request.rest.partition("?")
    if name not in MODELS:
        raise UsageError(f"there is no demo model {name!r}", hint=f"one of: {', '.join(MODELS)}")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise UsageError(f"the query {query!r} is not of the form KEY=VALUE&KEY=VALUE") from None
    given = dict(pairs)
    pace_s = _pace_s(given.pop("pace", str(DEFAULT_PACE_S)))
    sample = _sample(given.pop("sample", "0")) if name == "digits" else 0
    if given:
        known = "pace, sample" if name == "digits" else "pace"
        raise UsageError(f"{SCHEME}:{name} does not know {', '.join(sorted(given))}", hint=f"it knows: {known}")
    return DemoRequest(model=name, pace_s=pace_s, sample=sample)


def _pace_s(text: str) -> float:
    try:
        pace_s = float(text)
    except ValueError:
        pace_s = -1.0
    if not 0.0 <= pace_s <= LONGEST_PACE_S:
        raise UsageError(f"pace is a number of seconds from 0 to {LONGEST_PACE_S:.0f}, not {text!r}")
    return pace_s


def _sample(text: str) -> int:
    if text not in {str(number) for number in range(SAMPLES)}:
        raise UsageError(f"sample is a number from 0 to {SAMPLES - 1}, not {text!r}")
    return int(text)


def open_demo(request: SourceRequest) -> Source:
    """Make the source; nothing is loaded before it runs.

    Raises:
        UsageError: As in `parse`.
    """
    return DemoSource(parse(request))


class DemoSource:
    """Proves one model, once."""

    def __init__(self, request: DemoRequest) -> None:
        self._request = request
        self._stop = threading.Event()

    def run(self, feed: Feed) -> None:
        """Prove, verify, and deliver the events of it; when stopped midway, leave the proof open."""
        session = feed.open_session(source=f"{SCHEME}:{self._request.model}", time_source="arrival")
        try:
            # numpy is loaded here and not with the command line.
            from proofstream_demo.demonstration import demonstrate

            demonstrate(self._request, session.emit, pause=lambda seconds: self._pause(feed, seconds))
        except Stopped:
            session.close("interrupted", "the demo was stopped")
        else:
            session.close("ended")

    def stop(self) -> None:
        """End the pauses, and the walk at the next layer."""
        self._stop.set()

    def _pause(self, feed: Feed, seconds: float) -> None:
        """Wait, and leave when told to stop.

        Raises:
            Stopped: The source or its host was told to stop.
        """
        end = time.monotonic() + seconds
        while not (self._stop.is_set() or feed.stopping):
            left = end - time.monotonic()
            if left <= 0:
                return
            self._stop.wait(min(left, _LISTEN_S))
        raise Stopped
