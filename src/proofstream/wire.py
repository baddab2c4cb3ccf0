"""The wire: JSON lines to events and back.

Three shapes are read: the producer's bare lines, ``{"Kind":{...}}``; a server's job frames,
``{"job_id":...,"event":{...}}``; and our own envelopes, ``{"v":1,"seq":...,"event":{...}}``. Unknown kinds, fields and
words survive, because the event's own bytes are kept.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from proofstream.catalog import Catalog
from proofstream.envelopes import PRODUCER, Envelope
from proofstream.errors import WireError
from proofstream.events import ProofEvent, UnknownEvent, kind_of
from proofstream.fast_lines import FastLines, is_plain, may_exceed_u64
from proofstream.text import safe_text

ENVELOPE_VERSION = 1
MAX_LINE_BYTES = 16 * 2**20
"""The longest line that is read, unless the user says otherwise."""

MAX_NAME_CHARS = 1024
"""The longest kind, session id, job id, origin or trace context. Each is a key that many tables are kept by."""

_NAMES = ("session_id", "job_id", "parent_job_id", "time_source", "origin", "traceparent", "model_name")
_EXCERPT_CHARS = 80
_U64_MAX = 2**64 - 1
# How our own encoder and the known servers begin an envelope or a job frame.
_WRAPPED = (b'{"v":', b'{"job_id":')
_REASON_CHARS = 200
_NEWLINES_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?P<pair>\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Decoded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line, decoded. Fields that the line did not have are None.

    Attributes:
        event: The event.
        raw: The event's own JSON, `{"Kind":{...}}`, as it stood on the line; newlines between its values became spaces,
            and halves of surrogate pairs, which are not text, became the replacement character.
        job_id: From a job frame or an envelope.
        parent_job_id: From a job frame or an envelope.
        time_unix_nano: From an envelope.
        time_source: From an envelope, or from the source, if the time has another origin than its session's times.
        session_id: From an envelope.
        origin: From an envelope; `producer` otherwise.
        traceparent: From an envelope.
        model_name: From an envelope: what a user called the model.
    """

    event: ProofEvent
    raw: bytes
    job_id: str | None = None
    parent_job_id: str | None = None
    time_unix_nano: int | None = None
    time_source: str | None = None
    session_id: str | None = None
    origin: str = PRODUCER
    traceparent: str | None = None
    model_name: str | None = None

    def at(self, time_unix_nano: int, source: str | None = None) -> Decoded:
        """Return the same with another time, and with its origin if that is not its session's."""
        return msgspec.structs.replace(self, time_unix_nano=time_unix_nano, time_source=source)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be read.

    Attributes:
        line: Its number, from 1.
        reason: The problem.
        excerpt: Its beginning, made safe to show.
        form: The form of data that it was recognised as; empty if it was not. The reason then says what to do with it.
    """

    line: int
    reason: str
    excerpt: str
    form: str = ""

    def __str__(self) -> str:
        shown = f": {self.excerpt}" if self.excerpt else ""
        return f"line {self.line} refused: {self.reason}{shown}"


class _Wrapper(msgspec.Struct, frozen=True, gc=False):
    """The fields around an event in an envelope or a job frame."""

    event: msgspec.Raw
    v: int | None = None
    seq: int | None = None
    time_unix_nano: int | None = None
    session_id: str | None = None
    origin: str = PRODUCER
    job_id: str | int | None = None
    parent_job_id: str | int | None = None
    time_source: str | None = None
    traceparent: str | None = None
    model_name: str | None = None


_unwrap = msgspec.json.Decoder(_Wrapper).decode


class LineDecoder:
    """Decodes lines by the event types of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._fast = FastLines(catalog)

    def decode_plain(self, lines: Sequence[bytes]) -> list[Decoded | None]:
        """Decode many plain lines (see `is_plain`); None for each that `decode` has to look at."""
        events = self._fast.events_of(lines)
        return [
            self._decode_frame(line) if event is None else Decoded(event=event, raw=line)
            for event, line in zip(events, lines, strict=True)
        ]

    def _decode_frame(self, line: bytes) -> Decoded | None:
        """Decode a plain line with an envelope or a job frame; None if it is not one that is certainly right."""
        if not line.startswith(_WRAPPED):
            return None
        try:
            wrapper = _unwrap_checked(line)
            raw = bytes(wrapper.event)
            event = self._fast.event_of(raw)
            return None if event is None else _wrapped(wrapper, event, raw, line)
        except (msgspec.MsgspecError, WireError, RecursionError, MemoryError):
            return None

    def decode(self, line: bytes) -> Decoded:
        """Decode one line, given without its newline.

        Raises:
            WireError: The line cannot be read; the message is the reason.
        """
        if is_plain(line) and (quickly := self.decode_plain((line,))[0]) is not None:
            return quickly
        try:
            return self._decode(line)
        except WireError:
            mended = _mend_escapes(line)
            if mended == line:
                raise
        return self._decode(mended)

    def _decode(self, line: bytes) -> Decoded:
        try:
            str(line, "utf-8")
            parts = _split(line)
            if "event" in parts:
                return self._decode_wrapped(line)
            return Decoded(event=self._decode_event(parts, line), raw=_one_line(line))
        except UnicodeDecodeError as error:
            raise WireError(f"not UTF-8 (byte {error.start})") from None
        except msgspec.ValidationError as error:
            raise WireError(_reason(error)) from None
        except msgspec.DecodeError as error:
            raise WireError(f"not JSON: {_reason(error).removeprefix('JSON is malformed: ')}") from None
        except RecursionError:
            raise WireError("nested too deep") from None
        except MemoryError:
            raise WireError("too large for the memory that is left") from None

    def _decode_wrapped(self, line: bytes) -> Decoded:
        wrapper = _unwrap_checked(line)
        raw = bytes(wrapper.event)
        return _wrapped(wrapper, self._decode_event(_split(raw), raw), raw, line)

    def _decode_event(self, parts: dict[str, msgspec.Raw], raw: bytes) -> ProofEvent:
        if len(parts) != 1:
            raise WireError(f"expected an object with one key, the event's kind; got {len(parts)} keys")
        ((kind, body),) = parts.items()
        decoder = self.catalog.decoder(kind)
        if decoder is None:
            if not kind[:1].isupper():
                raise WireError(
                    f"not an event: kinds begin with a capital letter, and this is {kind[:_EXCERPT_CHARS]!r}"
                )
            if len(kind) > MAX_NAME_CHARS:
                raise WireError(f"the event's kind is longer than {MAX_NAME_CHARS} characters")
            return UnknownEvent(kind=kind)
        try:
            event: ProofEvent = decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError, MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a third party's event type may raise anything when it is made
            raise WireError(f"{kind} cannot be made: {_reason(error)}") from None
        if may_exceed_u64(raw):
            _check_u64(event, "$")
        return event


def _unwrap_checked(line: bytes) -> _Wrapper:
    """Return what stands around an event.

    Raises:
        WireError: The version is not known, or the time is out of range.
    """
    wrapper = _unwrap(line)
    if wrapper.v is not None and wrapper.v != ENVELOPE_VERSION:
        raise WireError(f"envelope version {wrapper.v!s:.20} is not known, only {ENVELOPE_VERSION}")
    time = wrapper.time_unix_nano
    if time is not None and not 0 <= time < 2**63:
        raise WireError(f"time_unix_nano {time!s:.20} is out of range")
    return wrapper


def _wrapped(wrapper: _Wrapper, event: ProofEvent, raw: bytes, line: bytes) -> Decoded:
    """Return an event with what stands around it.

    Raises:
        WireError: A name is too long.
    """
    decoded = Decoded(
        event=event,
        raw=_one_line(raw),
        job_id=_name(wrapper.job_id),
        parent_job_id=_name(wrapper.parent_job_id),
        time_unix_nano=wrapper.time_unix_nano,
        time_source=wrapper.time_source,
        session_id=wrapper.session_id,
        origin=wrapper.origin,
        traceparent=wrapper.traceparent,
        model_name=wrapper.model_name,
    )
    if len(line) - len(raw) > MAX_NAME_CHARS:  # a shorter frame cannot hold a longer name
        for name in _NAMES:
            if len(getattr(decoded, name) or "") > MAX_NAME_CHARS:
                raise WireError(f"{name} is longer than {MAX_NAME_CHARS} characters")
    return decoded


def _name(job: str | int | None) -> str | None:
    return job if job is None or isinstance(job, str) else str(job)


def _check_u64(value: Any, path: str) -> None:
    if isinstance(value, int) and value > _U64_MAX:
        raise WireError(f"Expected `int` <= {_U64_MAX} - at `{path}`")
    for place, inner in _inside(value):
        _check_u64(inner, path + place)


def _inside(value: Any) -> list[tuple[str, Any]]:
    """Return the values inside a value, each with its path as msgspec writes it."""
    if isinstance(value, msgspec.Struct):
        return [(f".{name}", getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, dict):
        return [("[...]", inner) for inner in cast("dict[str, Any]", value).values()]
    if isinstance(value, list | tuple):
        return [(f"[{index}]", inner) for index, inner in enumerate(cast("list[Any]", value))]
    return []


def _one_line(raw: bytes) -> bytes:
    """Return valid JSON without its newlines, which can only stand between values."""
    return raw.translate(_NEWLINES_TO_SPACES) if b"\n" in raw or b"\r" in raw else raw


def _mend_escapes(line: bytes) -> bytes:
    r"""Replace escapes such as `\ud800` whose other half is missing: JSON can spell them, but they are not text."""
    return _ESCAPE.sub(_mend_escape, line) if _SURROGATE.search(line) else line


def _mend_escape(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    return b"\\ufffd" if _SURROGATE.match(escape) and match["pair"] is None else escape


def refusal(line_number: int, reason: str, line: bytes) -> Refusal:
    """Describe a line that could not be read: its number from 1, the reason, and its beginning."""
    head = line[: 4 * _EXCERPT_CHARS].decode("utf-8", "replace")
    return Refusal(line=line_number, reason=reason, excerpt=safe_text(head, _EXCERPT_CHARS))


def _plain(value: Any) -> Any:
    """Return the plain value of a numpy scalar (without importing numpy) or of a subclass of str, int or float."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        return item()
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise NotImplementedError(f"a value of type {type(value).__name__} has no JSON form")


encode_body: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_plain).encode
"""Returns the JSON of an event's fields. Raises whatever a value raises, and for text that is no UTF-8."""


def _without_surrogates(value: Any) -> Any:
    """Return the value with text that UTF-8 can encode. Lone surrogates come from undecodable file names."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {_without_surrogates(key): _without_surrogates(item) for key, item in pairs}
    return value


def _body(event: ProofEvent) -> bytes:
    try:
        return encode_body(event)
    except UnicodeEncodeError:
        return encode_body(_without_surrogates(msgspec.to_builtins(event, enc_hook=_plain)))


def _reason(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an exception of the prover may fail to describe itself
        text = ""
    return safe_text(text or type(error).__name__, _REASON_CHARS)


def encode_event(event: ProofEvent) -> bytes:
    """Return the event's JSON, `{"Kind":{...}}`. Numpy scalars become numbers, lone surrogates a question mark.

    Raises:
        WireError: A value has no JSON form.
    """
    if isinstance(event, UnknownEvent):
        raise WireError(f"{event.kind} is an undeclared kind; its JSON is the envelope's raw")
    try:
        return b'{"%b":%b}' % (kind_of(event).encode(), _body(event))
    except KeyboardInterrupt:
        raise  # the user's, on the main thread
    except BaseException as error:  # noqa: BLE001 - a value may raise anything: SystemExit, or the panic of a Rust extension
        raise WireError(_reason(error)) from None


@functools.cache
def text_fields(event_type: type[ProofEvent]) -> tuple[str, ...]:
    """Return the text fields, because msgspec would also encode bytes, dates and ids as text."""
    return tuple(f.name for f in msgspec.structs.fields(event_type) if f.type in (str, str | None))


def check_event(event: object, decoder: LineDecoder) -> Decoded:
    """Check an event made in Python by encoding it and decoding the result, as if it had come on a line.

    It runs on the bus's thread, which every plugin needs. No value may end that thread, whatever it raises.

    Raises:
        WireError: It is not an event, its kind is not declared, a value has the wrong type or is out of range, or a
            value raised something.
    """
    try:
        return _checked(event, decoder)
    except WireError:
        raise
    except BaseException as error:  # noqa: BLE001 - no signal reaches this thread, so even KeyboardInterrupt is a value's
        raise WireError(_reason(error)) from None


def _checked(event: object, decoder: LineDecoder) -> Decoded:
    if not issubclass(type(event), ProofEvent):
        raise WireError(f"{type(event).__name__} is not an event")
    assert isinstance(event, ProofEvent)
    decoded = decoder.decode(encode_event(event))
    if type(decoded.event) is not type(event):
        raise WireError(f"{kind_of(event)} is an undeclared kind")
    for name in text_fields(type(event)):
        value = getattr(event, name)
        if value is not None and not isinstance(value, str):
            raise WireError(f"Expected `str`, got `{type(value).__name__}` - at `$.{name}`")
    return decoded


class _Around(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The names that stand around an event in an envelope, in their order there."""

    session_id: str
    origin: str = PRODUCER
    job_id: str | None = None
    parent_job_id: str | None = None
    time_source: str | None = None
    traceparent: str | None = None
    model_name: str | None = None


@functools.lru_cache(maxsize=256)
def _around(*names: str | None) -> bytes:
    """Return the members of an envelope between its time and its event. Most envelopes have the same as the last."""
    return msgspec.json.encode(_Around(*names))[1:-1]  # type: ignore[arg-type]


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the envelope as one JSON line without its newline. The event stays as its producer wrote it."""
    return b'{"v":%d,"seq":%d,"time_unix_nano":%d,%b,"event":%b}' % (
        ENVELOPE_VERSION,
        envelope.seq,
        envelope.time_unix_nano,
        _around(
            envelope.session_id,
            envelope.origin,
            envelope.job_id,
            envelope.parent_job_id,
            envelope.time_source,
            envelope.traceparent,
            envelope.model_name,
        ),
        envelope.raw,
    )
