"""The wire format: reading, writing, and refusing invalid lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from proofstream import events as ev
from proofstream.catalog import Catalog
from proofstream.envelopes import PRODUCER, Envelope
from proofstream.errors import WireError
from proofstream.testing import read_stream
from proofstream.wire import MAX_NAME_CHARS, Decoded, LineDecoder, check_event, encode_envelope, encode_event, refusal

DECODER = LineDecoder(Catalog())
U64_MAX = 2**64 - 1


def refused(line: bytes) -> str:
    with pytest.raises(WireError) as caught:
        DECODER.decode(line)
    return str(caught.value)


def read_or_reason(line: bytes) -> Decoded | str:
    try:
        return DECODER.decode(line)
    except WireError as error:
        return str(error)


def check_any_bytes(line: bytes) -> None:
    result = read_or_reason(line)
    if isinstance(result, str):
        assert 0 < len(result) < 300
    else:
        assert isinstance(result.event, ev.ProofEvent)
        assert b"\n" not in result.raw


def stark_end(duration: str) -> bytes:
    return b'{"StarkProofEnd":{"duration_ms":%b}}' % duration.encode()


# Strategies derived from the structs themselves

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def values_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Generate values that a field of that type may hold."""
    match kind:
        case inspect.IntType(ge=least, le=most):
            return st.integers(least or 0, U64_MAX if most is None else most)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return TEXT
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.EnumType(cls=cls):
            return st.sampled_from(cls)
        case _:
            return composed_of(kind)


def composed_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.UnionType(types=types):
            return st.one_of(*map(values_of, types))
        case inspect.ListType(item_type=item):
            return st.lists(values_of(item), max_size=4)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(values_of, items))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values_of(key), values_of(value), max_size=4)
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: values_of(field.type) for field in fields})
        case _:
            raise AssertionError(kind)


EVENTS = st.one_of(*(values_of(inspect.type_info(t)) for t in (*ev.PRODUCER_EVENTS, *ev.HOST_EVENTS)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


class TestBareLines:
    def test_every_line_of_the_original_decodes_to_an_equal_value_again(self, wire_data: Path) -> None:
        lines = (wire_data / "serde-all-variants.jsonl").read_bytes().splitlines()
        assert {next(iter(json.loads(line))) for line in lines} == {t.__name__ for t in ev.PRODUCER_EVENTS}
        for line in lines:
            decoded = DECODER.decode(line)
            assert json.loads(encode_event(decoded.event)) == json.loads(line)
            assert decoded.raw == line
            assert (decoded.origin, decoded.job_id, decoded.time_unix_nano) == (PRODUCER, None, None)

    @settings(max_examples=300)
    @given(EVENTS)
    def test_any_event_survives_a_round_trip(self, event: ev.ProofEvent) -> None:
        raw = encode_event(event)
        decoded = DECODER.decode(raw)

        assert decoded.event == event
        assert decoded.raw == raw
        assert encode_event(decoded.event) == raw

    @settings(max_examples=300)
    @given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
    @example(b'{"X":' + b"[" * 100_000)
    @example(b'{"X":' + b'{"a":' * 100_000)
    @example(b'{"v":' + b"1" * 4300 + b',"event":{"X":1}}')
    @example(b'{"time_unix_nano":' + b"1" * 4300 + b',"event":{"X":1}}')
    @example(b"\\ud800")
    def test_any_bytes_are_read_or_refused(self, line: bytes) -> None:
        check_any_bytes(line)

    @settings(max_examples=300)
    @given(st.data(), EVENTS)
    def test_a_damaged_line_is_read_or_refused(self, data: st.DataObject, event: ev.ProofEvent) -> None:
        line = bytearray(encode_event(event))
        for _ in range(data.draw(st.integers(1, 3))):
            line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
        check_any_bytes(bytes(line))

    @given(st.from_regex(r"[A-Z][A-Za-z]{0,10}", fullmatch=True).filter(lambda kind: kind not in Catalog()), JSON)
    def test_an_unknown_kind_is_kept_as_it_is(self, kind: str, body: object) -> None:
        line = json.dumps({kind: body}).encode()
        decoded = DECODER.decode(line)

        assert decoded.event == ev.UnknownEvent(kind=kind)
        assert decoded.raw == line

    def test_unknown_fields_and_words_survive(self) -> None:
        line = b'{"LayerStart":{"layer_idx":1,"kind":"RoPE","input_shape":[1,1],"output_shape":[1,1],"trace_cost":0,'
        line += b'"claim_value_approx":null,"gpu_device":null,"colour":{"red":[1e999]}}}'
        decoded = DECODER.decode(line)

        assert isinstance(decoded.event, ev.LayerStart)
        assert decoded.event.kind is ev.LayerKind.Unknown
        assert decoded.raw == line

    @pytest.mark.parametrize("number", [0, 1, 2**63 - 1, 2**63, U64_MAX])
    def test_integers_up_to_the_u64_maximum(self, number: int) -> None:
        event = ev.StarkProofEnd(duration_ms=number)

        assert DECODER.decode(stark_end(str(number))).event == event
        assert check_event(event, DECODER).event == event

    @pytest.mark.parametrize(
        "number", ["-1", "18446744073709551616", "9" * 500, "9" * 5000, "1.5", "1e3", "true", '"1"']
    )
    def test_other_integers_are_refused_with_their_place(self, number: str) -> None:
        assert "$.duration_ms" in refused(stark_end(number))

    @pytest.mark.parametrize("number", [-1, 2**32, U64_MAX])
    def test_limbs_and_samples_are_32_bit(self, number: int) -> None:
        one = ev.SecureField(1, 2, 3, 4)
        wrong = ev.SecureField(1, 2, 3, number)
        sumcheck = ev.SumcheckRound(
            layer_idx=0,
            round=0,
            total_rounds=1,
            poly_deg2=ev.RoundPoly(one, wrong, one),
            poly_deg3=None,
            claim_value_approx=0.0,
        )
        stats = ev.ActivationStats(mean=0.0, std_dev=0.0, min=0.0, max=0.0, sparsity=0.0)
        sample = ev.LayerActivation(
            layer_idx=0, node_id=0, kind=ev.LayerKind.Add, output_shape=(1, 1), output_sample=[1, number], stats=stats
        )

        assert "$.poly_deg2.c1.d" in refused(encode_event(sumcheck))
        assert "$.output_sample[1]" in refused(encode_event(sample))

    def test_a_number_too_large_deep_inside_is_found(self) -> None:
        line = b'{"EventsLost":{"where":"intake","counts":{"Log":18446744073709551616}}}'

        assert "18446744073709551615" in refused(line)

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b"", "not JSON"),
            (b"not json", "not JSON"),
            (b'{"Log":{"level":"Info","message":"a"}}x', "not JSON"),
            (b'{"StarkProofEnd":{"duration_ms":NaN}}', "not JSON"),
            (b"[]", "Expected `object`, got `array`"),
            (b"null", "Expected `object`, got `null`"),
            (b"{}", "got 0 keys"),
            (b'{"A":{},"B":{}}', "got 2 keys"),
            (b'{"Log":null}', "Expected `object`, got `null`"),
            (b'{"LayerStart":{"layer_idx":1}}', "missing required field `kind`"),
            (b'{"Log":{"level":"Info","message":"\xff"}}', "not UTF-8 (byte 34)"),
            (b'{"X":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
            (b'{"event":{}}', "got 0 keys"),
            (b'{"event":null}', "Expected `object`, got `null`"),
            (b'{"v":2,"event":{"X":1}}', "envelope version 2"),
            (b'{"v":1,"time_unix_nano":-1,"event":{"X":1}}', "out of range"),
            (b'{"v":1,"time_unix_nano":9223372036854775808,"event":{"X":1}}', "out of range"),
            (b'{"job_id":true,"event":{"X":1}}', "$.job_id"),
        ],
    )
    def test_refusals_say_why(self, line: bytes, reason: str) -> None:
        assert reason in refused(line)

    def test_a_null_float_is_none_and_written_as_null(self) -> None:
        line = b'{"LayerEnd":{"layer_idx":1,"kind":"LogUp","final_claim_value_approx":null,"duration_ms":1,'
        line += b'"rounds_completed":0}}'
        decoded = DECODER.decode(line)

        assert isinstance(decoded.event, ev.LayerEnd)
        assert decoded.event.final_claim_value_approx is None
        assert encode_event(decoded.event) == line

    @pytest.mark.parametrize(
        ("escaped", "text"),
        [
            (rb"\ud800", "\ufffd"),
            (rb"a\uDC80b", "a\ufffdb"),
            (rb"\ud800\ud83d\ude00\udfff", "\ufffd\U0001f600\ufffd"),
            (rb"\\ud800\ud800", "\\ud800\ufffd"),
            (rb"\ud800\n", "\ufffd\n"),
        ],
    )
    def test_half_a_surrogate_pair_costs_only_itself(self, escaped: bytes, text: str) -> None:
        decoded = DECODER.decode(b'{"Log":{"level":"Info","message":"%b"}}' % escaped)

        assert decoded.event == ev.Log(level=ev.LogLevel.Info, message=text)
        assert json.loads(decoded.raw)["Log"]["message"] == text

    def test_a_line_with_a_second_fault_names_that_fault(self) -> None:
        assert "$.level" in refused(rb'{"Log":{"level":7,"message":"\ud800"}}')

    def test_the_last_of_two_equal_keys_counts(self) -> None:
        decoded = DECODER.decode(b'{"Log":{"level":"Info","level":"Warn","message":"a"}}')

        assert decoded.event == ev.Log(level=ev.LogLevel.Warn, message="a")

    def test_the_malformed_stream(self, wire_data: Path) -> None:
        expect = json.loads((wire_data / "malformed.expect.json").read_text())
        accepted: list[Decoded] = []
        rejected: list[int] = []
        for number, line in enumerate((wire_data / "malformed.jsonl").read_bytes().splitlines(), 1):
            if line.strip():
                result = read_or_reason(line)
                if isinstance(result, str):
                    rejected.append(number)
                    assert str(refusal(number, result, line)).startswith(f"line {number} refused: {result}: ")
                else:
                    accepted.append(result)

        assert len(accepted) == expect["accepted"]
        assert sum(isinstance(d.event, ev.UnknownEvent) for d in accepted) == expect["of_them_unknown_variant"]
        assert rejected == expect["rejected_lines"]


class TestRefusals:
    @given(st.binary(max_size=400))
    def test_an_excerpt_is_short_and_safe_to_show(self, line: bytes) -> None:
        excerpt = refusal(3, "not JSON", line).excerpt

        assert len(excerpt) <= 80
        assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in excerpt)
        excerpt.encode()

    def test_a_long_line_is_cut(self) -> None:
        shown = str(refusal(7, "not JSON", b"x" * 1000))

        assert shown == "line 7 refused: not JSON: " + "x" * 79 + "\N{HORIZONTAL ELLIPSIS}"

    def test_an_empty_excerpt_is_left_out(self) -> None:
        assert str(refusal(7, "not JSON", b"")) == "line 7 refused: not JSON"


class TestFramesAndEnvelopes:
    @pytest.mark.parametrize(("job", "job_id"), [('"a-1"', "a-1"), ("7", "7"), ("null", None), ('""', "")])
    def test_a_job_frame(self, job: str, job_id: str | None) -> None:
        line = b'{"job_id":%b,"extra":1,"event" : {"StarkProofEnd":{"duration_ms":3,"more":true}}}' % job.encode()
        decoded = DECODER.decode(line)

        assert decoded.event == ev.StarkProofEnd(duration_ms=3)
        assert decoded.job_id == job_id
        assert decoded.raw == b'{"StarkProofEnd":{"duration_ms":3,"more":true}}'

    def test_the_stream_of_job_frames(self, wire_data: Path) -> None:
        decoded = list(read_stream(wire_data / "ws-job-frames-lagged.jsonl"))

        assert {d.job_id is None for d in decoded} == {False}
        assert len({d.job_id for d in decoded}) == 1

    @settings(max_examples=300)
    @given(
        EVENTS,
        st.integers(0, U64_MAX),
        st.integers(0, 2**63 - 1),
        TEXT,
        st.sampled_from([PRODUCER, "host", "otel"]),
        st.none() | TEXT,
        st.none() | TEXT,
    )
    def test_any_envelope_survives_a_round_trip(
        self,
        event: ev.ProofEvent,
        seq: int,
        time: int,
        session_id: str,
        origin: str,
        job_id: str | None,
        traceparent: str | None,
    ) -> None:
        raw = encode_event(event)
        line = encode_envelope(
            Envelope(
                seq=seq,
                time_unix_nano=time,
                session_id=session_id,
                origin=origin,
                event=event,
                raw=raw,
                job_id=job_id,
                traceparent=traceparent,
            )
        )

        assert b"\n" not in line
        assert DECODER.decode(line) == Decoded(
            event=event,
            raw=raw,
            job_id=job_id,
            time_unix_nano=time,
            session_id=session_id,
            origin=origin,
            traceparent=traceparent,
        )

    def test_the_form_of_an_envelope(self) -> None:
        envelope = Envelope(
            seq=5,
            time_unix_nano=7,
            session_id="s",
            origin=PRODUCER,
            event=ev.UnknownEvent(kind="QuantumRound"),
            raw=b'{"QuantumRound":{"qubits":3,"big":123456789012345678901234567890,"much":1e999}}',
        )

        assert encode_envelope(envelope) == (
            b'{"v":1,"seq":5,"time_unix_nano":7,"session_id":"s","event":'
            b'{"QuantumRound":{"qubits":3,"big":123456789012345678901234567890,"much":1e999}}}'
        )

    @pytest.mark.parametrize(
        "text",
        [
            b'{\n  "Log": {\r\n    "level": "Info",\n    "message": "a\\nb"\n  }\n}',
            b'{"job_id":"a","event":{\n  "Log": {\r\n    "level": "Info",\n    "message": "a\\nb"\n  }\n}\n}',
        ],
    )
    def test_json_over_several_lines_is_written_on_one(self, text: bytes) -> None:
        decoded = DECODER.decode(text)
        line = encode_envelope(
            Envelope(seq=0, time_unix_nano=0, session_id="s", origin=PRODUCER, event=decoded.event, raw=decoded.raw)
        )

        assert len(line.splitlines()) == 1
        assert DECODER.decode(line).event == ev.Log(level=ev.LogLevel.Info, message="a\nb")

    def test_newer_fields_of_an_envelope_are_ignored(self) -> None:
        decoded = DECODER.decode(b'{"v":1,"seq":1,"weather":"fine","event":{"StarkProofEnd":{"duration_ms":3}}}')

        assert decoded.event == ev.StarkProofEnd(duration_ms=3)


class Scalar:
    """Stands in for a numpy scalar: it holds a value and has no dimensions."""

    ndim = 0

    def __init__(self, held: Any) -> None:
        self.held = held

    def item(self) -> Any:
        if isinstance(self.held, BaseException):
            raise self.held
        return self.held


class Mute(Exception):
    """An exception that fails to describe itself."""

    def __str__(self) -> str:
        raise ValueError


class NoAttributes:
    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


def _no_class(_: object) -> Any:
    raise RuntimeError("a proxy without what it stands for")


NoClass: type[Any] = type("NoClass", (), {"__class__": property(_no_class)})


class Beat(ev.ProofEvent, frozen=True, kw_only=True):
    """An event type of a plugin."""

    count: int
    name: str | None = None


class Picky(ev.ProofEvent, frozen=True, kw_only=True):
    """An event type whose constructor raises an error of its own."""

    key: str

    def __post_init__(self) -> None:
        {"known": 1}[self.key]


class Panic(BaseException):
    """As pyo3 raises where Rust code panics."""


class Unspeakable(Panic):
    """One that panics again where it is described."""

    def __str__(self) -> str:
        raise Panic


class Panicking(ev.ProofEvent, frozen=True, kw_only=True):
    """An event type whose constructor panics."""

    key: str

    def __post_init__(self) -> None:
        raise Panic(self.key)


class Words(str):
    __slots__ = ()


def stark(duration: Any) -> ev.StarkProofEnd:
    return ev.StarkProofEnd(duration_ms=duration)


def turned_down(event: Any, decoder: LineDecoder = DECODER) -> str:
    with pytest.raises(WireError) as caught:
        check_event(event, decoder)
    return str(caught.value)


ODD: list[Any] = [
    *(None, True, -1, 2**64, 0.5, float("inf"), "x", "\ud800", b"x", (), [], {}, {1: 2}, {None: 1}, object()),
    *(Scalar(1), Scalar(Mute()), NoAttributes(), ev.LayerKind.Add, ev.SecureField(1, 2, 3, 4)),
]


class TestEventsMadeInPython:
    @pytest.mark.parametrize("number", [3, Scalar(3), Scalar(Scalar(3))])
    def test_integers(self, number: Any) -> None:
        assert check_event(stark(number), DECODER).raw == b'{"StarkProofEnd":{"duration_ms":3}}'

    def test_numpys_numbers(self) -> None:
        numpy = pytest.importorskip("numpy")
        for number in (numpy.int8(3), numpy.uint64(3), numpy.array(3), numpy.int64(3)):
            assert check_event(stark(number), DECODER).event == ev.StarkProofEnd(duration_ms=3)
        for number in (numpy.float32(0.5), numpy.float64(0.5), numpy.float16(0.5)):
            snapshot: Any = ev.GpuSnapshot(device_id=0, device_name="x", utilization=number, free_memory_bytes=None)
            status = ev.GpuStatus(devices=[snapshot], matmul_done=0, matmul_total=0, layers_done=0, layers_total=0)
            assert b'"utilization":0.5' in check_event(status, DECODER).raw
        assert "no JSON form" in turned_down(stark(numpy.array([3])))

    @pytest.mark.parametrize(
        "number",
        ["3", b"3", None, 3.0, True, -1, 2**64, 10**400, float("nan"), [], {}, object(), 1j],
        ids=lambda value: type(value).__name__,
    )
    def test_a_value_that_is_not_an_integer_is_refused(self, number: Any) -> None:
        assert turned_down(stark(number))

    @pytest.mark.parametrize(
        "error",
        [ZeroDivisionError("no"), Mute(), RecursionError(), MemoryError(), UnicodeEncodeError("a", "b", 0, 1, "c")],
    )
    def test_a_value_that_raises_is_refused(self, error: Exception) -> None:
        assert len(turned_down(stark(Scalar(error)))) <= 200

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (SystemExit("a panic"), "a panic"),
            (KeyboardInterrupt(), "KeyboardInterrupt"),
            (GeneratorExit(), "GeneratorExit"),
            (Panic("called `unwrap()`\x1b[2J"), "called `unwrap()`\N{SYMBOL FOR ESCAPE}[2J"),
            (Unspeakable(), "Unspeakable"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_value_that_would_end_the_thread_is_refused_like_any_other(
        self, error: BaseException, reason: str
    ) -> None:
        assert turned_down(stark(Scalar(error))) == reason

    def test_ctrl_c_while_the_user_encodes_an_event_is_the_users(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            encode_event(stark(Scalar(KeyboardInterrupt())))

    @pytest.mark.parametrize("awkward", [NoClass, NoAttributes])
    def test_a_value_without_usable_methods_is_refused(self, awkward: type[Any]) -> None:
        assert turned_down(stark(awkward()))
        assert "not an event" in turned_down(awkward())

    def test_a_value_that_contains_itself_is_refused(self) -> None:
        circle: list[Any] = []
        circle.append(circle)
        scalar = Scalar(None)
        scalar.held = scalar

        assert "recursion" in turned_down(stark(circle))
        assert "recursion" in turned_down(stark(scalar))

    @pytest.mark.parametrize("number", [1, 1.0, Scalar(1.0)])
    def test_an_integer_is_accepted_as_a_float(self, number: Any) -> None:
        stats: Any = ev.ActivationStats(mean=number, std_dev=None, min=None, max=None, sparsity=None)
        event = ev.LayerActivation(
            layer_idx=0, node_id=0, kind=ev.LayerKind.Add, output_shape=(1, 1), output_sample=[], stats=stats
        )
        checked = check_event(event, DECODER).event

        assert isinstance(checked, ev.LayerActivation)
        assert checked.stats.mean == 1.0

    def test_lists_and_tuples_are_interchangeable(self) -> None:
        shape: Any = [2, 3]
        sample: Any = (1, 2)
        stats = ev.ActivationStats(mean=None, std_dev=None, min=None, max=None, sparsity=None)
        event = ev.LayerActivation(
            layer_idx=0, node_id=0, kind=ev.LayerKind.Add, output_shape=shape, output_sample=sample, stats=stats
        )
        checked = check_event(event, DECODER).event

        assert isinstance(checked, ev.LayerActivation)
        assert (checked.output_shape, checked.output_sample) == ((2, 3), (1, 2))

    @pytest.mark.parametrize(
        ("text", "read"),
        [("plain", "plain"), ("", ""), (Words("sub"), "sub"), ("a\ud800b", "a?b"), ("\x00\n", "\x00\n")],
    )
    def test_text(self, text: Any, read: str) -> None:
        checked = check_event(ev.Log(level=ev.LogLevel.Info, message=text), DECODER)

        assert checked.event == ev.Log(level=ev.LogLevel.Info, message=read)
        assert json.loads(checked.raw) == {"Log": {"level": "Info", "message": read}}

    def test_text_inside_a_mapping(self) -> None:
        event = ev.SessionOpened(
            source="\udcff", time_source="envelope", traceparent=None, resource={"host.name": "a\udc80", "\udc81": "b"}
        )
        checked = check_event(event, DECODER).event

        assert isinstance(checked, ev.SessionOpened)
        assert (checked.source, checked.resource) == ("?", {"host.name": "a?", "?": "b"})

    @pytest.mark.parametrize("text", [b"bytes", 3, None, bytearray(b"x")])
    def test_a_value_that_is_not_text_is_refused(self, text: Any) -> None:
        assert "`$.message`" in turned_down(ev.Log(level=ev.LogLevel.Info, message=text))

    @pytest.mark.parametrize(("word", "level"), [("Warn", ev.LogLevel.Warn), ("Loud", ev.LogLevel.Unknown)])
    def test_a_word_is_accepted_as_an_enum_member(self, word: Any, level: ev.LogLevel) -> None:
        checked = check_event(ev.Log(level=word, message=""), DECODER)

        assert checked.event == ev.Log(level=level, message="")
        assert word.encode() in checked.raw

    def test_a_declared_event_type_of_a_plugin(self) -> None:
        catalog = Catalog()
        catalog.add("beats", [Beat])
        event = Beat(count=3)

        assert check_event(event, LineDecoder(catalog)).event == event
        assert "undeclared kind" in turned_down(event)

    def test_a_declared_event_type_that_raises_costs_one_line(self) -> None:
        catalog = Catalog()
        catalog.add("picky", [Picky])
        decoder = LineDecoder(catalog)

        with pytest.raises(WireError, match="Picky cannot be made: 'strange'"):
            decoder.decode(b'{"Picky":{"key":"strange"}}')
        assert decoder.decode(b'{"Picky":{"key":"known"}}').event == Picky(key="known")

    def test_a_declared_event_type_that_panics_costs_one_line(self) -> None:
        catalog = Catalog()
        catalog.add("panicking", [Panicking])

        with pytest.raises(WireError, match="Panicking cannot be made: strange"):
            LineDecoder(catalog).decode(b'{"Panicking":{"key":"strange"}}')

    @pytest.mark.parametrize("thing", [3, None, "Log", {"Log": {}}, ev.Log])
    def test_a_value_that_is_not_an_event_is_refused(self, thing: object) -> None:
        assert "not an event" in turned_down(thing)

    def test_an_unknown_event_is_refused(self) -> None:
        assert "undeclared kind" in turned_down(ev.UnknownEvent(kind="QuantumRound"))
        assert "undeclared kind" in turned_down(ev.ProofEvent())

    @given(st.data())
    def test_any_wrong_value_is_accepted_or_refused(self, data: st.DataObject) -> None:
        event_type: Any = data.draw(st.sampled_from([*ev.PRODUCER_EVENTS, *ev.HOST_EVENTS]))
        odd = st.sampled_from(ODD)
        made = event_type(**{name: data.draw(odd) for name in event_type.__struct_fields__})
        try:
            decoded = check_event(made, DECODER)
        except WireError:
            return
        assert DECODER.decode(decoded.raw).event == decoded.event
        assert msgspec.json.decode(decoded.raw)


@pytest.mark.parametrize("name", ["session_id", "job_id", "origin", "traceparent"])
def test_a_name_of_the_frame_is_bounded(name: str) -> None:
    def line(length: int) -> bytes:
        return b'{"%b":"%b","event":{"StarkProofEnd":{"duration_ms":1}}}' % (name.encode(), b"x" * length)

    assert getattr(DECODER.decode(line(MAX_NAME_CHARS)), name) == "x" * MAX_NAME_CHARS
    assert refused(line(MAX_NAME_CHARS + 1)) == f"{name} is longer than {MAX_NAME_CHARS} characters"
    assert DECODER.decode(line(4).replace(b'"event"', b'"more":"%b","event"' % (b"x" * 5000))).raw


def test_a_kind_is_bounded() -> None:
    assert DECODER.decode(b'{"%b":1}' % (b"X" * MAX_NAME_CHARS)).event == ev.UnknownEvent(kind="X" * MAX_NAME_CHARS)
    assert "longer than" in refused(b'{"%b":1}' % (b"X" * (MAX_NAME_CHARS + 1)))


@pytest.mark.parametrize(
    "body",
    [
        b'"SessionOpened":{"source":"x","time_source":"arrival","traceparent":null,"resource":{%b}}',
        b'"EventsLost":{"where":"intake","counts":{%b}}',
    ],
)
def test_a_mapping_by_name_is_bounded(body: bytes) -> None:
    value = b"1" if b"counts" in body else b'"v"'

    def line(count: int) -> bytes:
        return b"{" + body % b",".join(b'"k%d":%b' % (number, value) for number in range(count)) + b"}"

    assert DECODER.decode(line(1000)).event
    assert f"length <= {ev.MAX_NAMES}" in refused(line(ev.MAX_NAMES + 1))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"LayerEnd":{"duration_ms":1,"x":' + b"[" * 2**23 + b"]" * 2**23 + b"}}", "nested too deep"),
        (b'{"job_id":"a","x":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b',"event":{"X":1}}', "nested too deep"),
        (b"{" + b",".join(b'"k%d":1' % number for number in range(10**6)) + b"}", "got 1000000 keys"),
        (b'{"LayerEnd":{"layer_idx":1e400}}', "$.layer_idx"),
        (b'{"StarkProofEnd":{"duration_ms":%d}}' % 2**70, "$.duration_ms"),
    ],
    ids=["deep list of 16 MiB", "deep object", "a million keys", "1e400", "2**70"],
)
def test_a_monstrous_line_is_one_refusal(line: bytes, reason: str) -> None:
    assert reason in refused(line)


def test_a_million_unknown_fields_are_read_over() -> None:
    fields = b",".join(b'"k%d":1' % number for number in range(10**6))
    line = b'{"StarkProofEnd":{"duration_ms":1,' + fields + b"}}"

    assert DECODER.decode(line).event == ev.StarkProofEnd(duration_ms=1)


def test_the_states_of_a_circuit_are_optional_and_kept() -> None:
    fields = '"total_layers":1,"input_shape":[1,1],"output_shape":[1,1],"nodes":[],"has_simd":false,"simd_num_blocks":0'
    state = '{"id":"l0.gdn.h","kind":"recurrent","section":"main","format":"{h}","elements":18446744073709551615}'
    for states in ("", f',"states":[{state}]', ',"states":[]'):
        line = f'{{"CircuitCompiled":{{{fields}{states}}}}}'.encode()
        assert encode_event(DECODER.decode(line).event) == line
