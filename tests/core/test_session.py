"""The producer's interface: sessions, proofs and layers."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proofstream
from proofstream import (
    LayerEnd,
    LayerKind,
    LayerProofKind,
    Log,
    LogLevel,
    ProofAborted,
    ProofComplete,
    Report,
    SumcheckRound,
)
from proofstream.host import Host
from proofstream.intake import Intake
from proofstream.session import NoSession, Session, current_session, enter
from proofstream.testing import RecordingPlugin

MakeHost = Callable[..., Host]


def test_a_proof_with_layers_and_rounds(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    session = make_host(plugin).new_session(source="test")
    with session.proof(model_name="mlp", backend="cpu", num_layers=2) as proof:
        with proof.layer(1, kind=LayerKind.MatMul, input_shape=(1, 8), output_shape=(1, 4)) as layer:
            layer.round(0, total_rounds=2, claim_value_approx=0.5)
            layer.round(1, total_rounds=2, claim_value_approx=0.25)
        with proof.layer(0, kind=LayerKind.Add, proof_kind=LayerProofKind.Linear):
            pass
        proof.bound_weights(mode="sequential", num_openings=1)
    assert session.flush(10.0)
    assert plugin.kinds == [
        "ProofStart",
        "LayerStart",
        "SumcheckRound",
        "SumcheckRound",
        "LayerEnd",
        "LayerStart",
        "LayerEnd",
        "ProofComplete",
    ]
    ended = [e for e in plugin.events if isinstance(e, LayerEnd)]
    assert [(e.layer_idx, e.kind, e.rounds_completed, e.final_claim_value_approx) for e in ended] == [
        (1, LayerProofKind.Sumcheck, 2, 0.25),
        (0, LayerProofKind.Linear, 0, None),
    ]
    complete = plugin.events[-1]
    assert isinstance(complete, ProofComplete)
    assert (complete.num_layer_proofs, complete.num_weight_openings) == (2, 1)
    assert complete.weight_binding_mode == "sequential"


def test_an_exception_inside_a_proof_aborts_it_visibly_and_propagates(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    session = make_host(plugin).new_session(source="test")
    with (
        pytest.raises(KeyError, match="w3"),
        session.proof(num_layers=2) as proof,
        proof.layer(1, kind=LayerKind.MatMul),
    ):
        raise KeyError("w3")
    assert session.flush(10.0)
    assert plugin.kinds == ["ProofStart", "LayerStart", "ProofAborted"]
    aborted = plugin.events[-1]
    assert isinstance(aborted, ProofAborted)
    assert aborted.reason == "KeyError: 'w3'"


@pytest.mark.parametrize("in_proof", [False, True])
def test_a_burst_of_events_gives_the_garbage_collector_nothing_to_do(make_host: MakeHost, in_proof: bool) -> None:
    intake = Intake(capacity=1000, clock=lambda: 0)
    session = Session(intake=intake, owner=make_host(start=False), source="test")
    event = Log(level=LogLevel.Info, message="one of many")
    with session.proof(num_layers=0) as proof:
        emit = proof.emit if in_proof else session.emit
        gc.collect()
        before = gc.get_count()[0]
        for _ in range(500):
            emit(event)
        assert gc.get_count()[0] - before < 50
        assert len(intake.items) == 501


def test_emit_if_calls_make_only_while_a_plugin_listens(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin)
    session = host.new_session(source="test")
    session.emit_if(lambda: Log(level=LogLevel.Info, message="made"))

    def explode() -> Log:
        raise ZeroDivisionError

    session.emit_if(explode)
    assert session.flush(10.0)
    assert "Log" in plugin.kinds
    assert session.refused == 1
    session.close()
    calls: list[int] = []

    def count() -> Log:
        calls.append(1)
        return Log(level=LogLevel.Info, message="late")

    session.emit_if(count)
    proofstream.current_session().emit_if(count)
    assert calls == []


def test_emitting_nonsense_never_raises(make_host: MakeHost) -> None:
    session = make_host(RecordingPlugin()).new_session(source="test")
    nonsense: list[Any] = [None, 1, "x", object(), ProofComplete, {"ProofStart": {}}]
    for item in nonsense:
        session.emit(item)
    assert session.flush(10.0)
    assert session.refused == len(nonsense)


def test_without_a_session_events_are_accepted_and_dropped() -> None:
    session = proofstream.current_session()
    assert isinstance(session, NoSession)
    session.emit(Log(level=LogLevel.Info, message="x"))
    with session.proof(num_layers=1) as proof, proof.layer(0, kind=LayerKind.Add) as layer:
        layer.round(0, total_rounds=1)
    assert session.flush() is True
    session.close()


def test_open_session_is_current_everywhere_and_restores_the_outer_session() -> None:
    plugin = RecordingPlugin()
    heard_in_thread: list[proofstream.Session] = []
    with proofstream.open_session(plugins=[plugin], source="outer") as outer:
        assert proofstream.current_session() is outer
        thread = threading.Thread(target=lambda: heard_in_thread.append(proofstream.current_session()))
        thread.start()
        thread.join()
        with proofstream.open_session(plugins=[RecordingPlugin("inner")], source="inner") as inner:
            assert proofstream.current_session() is inner
        assert proofstream.current_session() is outer
        outer.emit(Log(level=LogLevel.Info, message="hello"))
    assert isinstance(proofstream.current_session(), NoSession)
    assert heard_in_thread == [outer]
    assert [k for k in plugin.kinds if k != "PluginHealth"] == ["SessionOpened", "Log", "SessionClosed"]
    assert plugin.unconfigured


def test_a_session_of_one_context_is_not_current_in_others() -> None:
    elsewhere = contextvars.copy_context()
    with proofstream.open_session(plugins=[RecordingPlugin()], scope="context") as session:
        assert proofstream.current_session() is session
        assert isinstance(elsewhere.run(proofstream.current_session), NoSession)


class Owner:
    """Ends sessions as `open_session` does, without a host."""

    def __init__(self) -> None:
        self.leave: Callable[[], None] = lambda: None

    def capture(self) -> dict[str, object]:
        return {}

    @property
    def problems(self) -> list[str]:
        return []

    def flush(self, timeout_s: float) -> bool:
        return True

    def close_session(self, session: Session, timeout_s: float | None, *, outcome: str, reason: str | None) -> Report:
        self.leave()
        session.send_end(outcome, reason)
        return Report()


def enter_new(*, process_wide: bool) -> Session:
    owner = Owner()
    session = Session(intake=Intake(capacity=1, clock=lambda: 0), owner=owner, source="test")
    owner.leave = enter(session.session_id, lambda: session, process_wide=process_wide)
    return session


NUMBERS = st.integers(0, 99)
STEPS = st.tuples(st.sampled_from(["copy", "open", "open everywhere", "close", "close"]), NUMBERS, NUMBERS)


@given(st.lists(STEPS, max_size=30))
def test_sessions_may_be_closed_in_any_order_and_anywhere(steps: list[tuple[str, int, int]]) -> None:
    contexts = [contextvars.Context()]
    entered: list[list[Session]] = [[]]  # by context, with those of the context that it is a copy of
    everywhere: list[Session] = []
    for step, where, which in steps:
        index = where % len(contexts)
        opened = [session for sessions in entered for session in sessions]
        if step == "copy":
            contexts.append(contexts[index].copy())
            entered.append(list(entered[index]))
        elif step != "close":
            session = contexts[index].run(enter_new, process_wide=step == "open everywhere")
            entered[index].append(session)
            everywhere += [session] if step == "open everywhere" else []
        elif opened:
            contexts[index].run(opened[which % len(opened)].close)
        for context, sessions in zip(contexts, entered, strict=True):
            candidates = [session for session in (*everywhere, *sessions) if not session.is_closed]
            current = context.run(current_session)
            assert current is candidates[-1] if candidates else isinstance(current, NoSession)
    for session in everywhere:
        session.close()


def test_a_session_that_is_closed_in_another_thread_is_current_no_more() -> None:
    first = proofstream.open_session(plugins=[RecordingPlugin()], scope="context")
    with proofstream.open_session(plugins=[RecordingPlugin()], scope="context") as second:
        thread = threading.Thread(target=first.close)
        thread.start()
        thread.join()
        assert current_session() is second
    assert isinstance(current_session(), NoSession)


def test_the_tasks_of_a_loop_may_end_their_sessions_in_any_order() -> None:
    async def prove(name: str, others: asyncio.Barrier) -> str:
        session = proofstream.open_session(plugins=[RecordingPlugin()], scope="context", source=name)
        await others.wait()
        inner = proofstream.open_session(plugins=[RecordingPlugin()], scope="context", source=f"inner {name}")
        session.close()
        await others.wait()
        found = current_session().source
        inner.close()
        await others.wait()
        assert isinstance(current_session(), NoSession)
        return found

    async def prove_all() -> list[str]:
        others = asyncio.Barrier(3)
        return await asyncio.gather(*(prove(name, others) for name in "abc"))

    assert asyncio.run(prove_all()) == ["inner a", "inner b", "inner c"]


class Panic(BaseException):
    """What a Rust extension raises, as pyo3's PanicException: no Exception."""


def test_emit_if_survives_a_panic_and_lets_the_user_interrupt(make_host: MakeHost) -> None:
    session = make_host(RecordingPlugin()).new_session(source="test")

    def raising(error: BaseException) -> Callable[[], Log]:
        def make() -> Log:
            raise error

        return make

    session.emit_if(raising(Panic("a panic")))
    assert session.refused == 1
    for error in (KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)):
            session.emit_if(raising(error))
    assert session.refused == 1


def test_a_session_ended_by_an_exception_says_so() -> None:
    plugin = RecordingPlugin()
    with pytest.raises(RuntimeError), proofstream.open_session(plugins=[plugin]):
        raise RuntimeError("out of memory")
    closed = next(e for e in plugin.events if isinstance(e, proofstream.SessionClosed))
    assert (closed.outcome, closed.reason) == ("interrupted", "RuntimeError: out of memory")


def test_rounds_belong_to_their_layer(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    session = make_host(plugin).new_session(source="test")
    with session.proof(num_layers=1) as proof, proof.layer(4, kind=LayerKind.Mul) as layer:
        layer.round(0, total_rounds=1)
    assert session.flush(10.0)
    found = next(e for e in plugin.events if isinstance(e, SumcheckRound))
    assert (found.layer_idx, found.round, found.total_rounds) == (4, 0, 1)


def test_open_session_names_what_is_wrong_with_a_plugin() -> None:
    with pytest.raises(proofstream.PluginError, match="no plugin is named 'otle'") as caught:
        proofstream.open_session(plugins=["otle"])
    assert caught.value.hint is not None
    assert "otel" in caught.value.hint


def test_open_session_accepts_configuration(tmp_path: Any) -> None:
    class Configured(RecordingPlugin):
        pass

    plugin = Configured("configured")
    with proofstream.open_session(plugins=[plugin], config={"configured": {"depth": 3}}):
        pass
    assert plugin.context is not None
    assert dict(plugin.context.config) == {"depth": 3}
    assert plugin.context.identity["proofstream.version"] == proofstream.__version__
