"""Reads the request ``demo:NAME?pace=SECONDS&sample=N&fail=WHERE``: a model, its input, the pace and a fault."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from proofstream import SourceRequest, UsageError

SCHEME = "demo"
MODELS = ("digits", "transformer")
DEFAULT_PACE_S = 2.5
LONGEST_PACE_S = 3600.0
SAMPLES = 10
"""Number of digits to choose from."""
FAIL_WALK = "walk"
FAIL_COMMIT = "commit"
FAILURES = (FAIL_WALK, FAIL_COMMIT)
"""Where a proof can be made to fail: in the middle of the layers, or in the commitments after them."""


class DemoRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The user's request.

    Attributes:
        model: The model's name.
        pace_s: The sum of all pauses between layers, in seconds.
        sample: The digit to classify, 0 to 9.
        fail: One of `FAILURES`, or None for a proof that succeeds.
    """

    model: str
    pace_s: float = DEFAULT_PACE_S
    sample: int = 0
    fail: str | None = None


def parse_request(request: SourceRequest) -> DemoRequest:
    """Read ``demo:NAME?pace=SECONDS&sample=N&fail=WHERE``.

    Raises:
        UsageError: The model, a key of the query or its value is unknown, or a flag does not apply to this source.
    """
    for flag, is_set in (("--follow", request.follow), ("--once", request.once)):
        if is_set:
            raise UsageError(f"{flag} does not apply to {request.uri}, which ends when its proof is verified")
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
    fail = _fail(given.pop("fail")) if "fail" in given else None
    if given:
        known = "pace, sample, fail" if name == "digits" else "pace, fail"
        raise UsageError(f"{SCHEME}:{name} does not know {', '.join(sorted(given))}", hint=f"it knows: {known}")
    return DemoRequest(model=name, pace_s=pace_s, sample=sample, fail=fail)


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


def _fail(text: str) -> str:
    if text not in FAILURES:
        raise UsageError(f"fail is {' or '.join(FAILURES)}, not {text!r}")
    return text
