"""The plugin on the bus: costs of proofs' programs, bytes that runs moved, and mistakes."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proofstream import (
    CircuitCompiled,
    ConfigError,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    Log,
    LogLevel,
    Opened,
    Proof,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StateBytes,
    StateBytesMoved,
    StateDeclaration,
    StateProgramCost,
    StateProgramRun,
    SumcheckRound,
    Timelines,
    open_session,
)
from proofstream.testing import InlineHost, RecordingPlugin, envelopes, read_stream
from proofstream_state_cost import StateCostPlugin
from proofstream_state_cost.declarations import MAX_STATES
from proofstream_state_cost.priced_states import MAX_REMEMBERED_STATES
from proofstream_state_cost.pricer import MAX_JOBS, UNNAMED, StatePricer

DATA = Path(__file__).parents[2] / "data"
CIRCUIT = DATA / "state" / "qwen3.8-27b.toml"
QWEN: dict[str, Any] = {"file": str(CIRCUIT), "formats": {"ssm_h_storage": "f32"}}
VERIFY = ["verify_checkpoint", "verify_rollback", "commit_accepted", "slot_zero"]
WIRE = sorted(path for path in (DATA / "wire").glob("*.jsonl") if path.stem != "malformed")


def states(elements: int = 100, *, layers: int = 2, snapshot: bool = False) -> list[StateDeclaration]:
    made: list[StateDeclaration] = []
    for layer in range(layers):
        h = f"l{layer}.mix.h"
        made.append(StateDeclaration(id=h, kind="recurrent", section="main", format="f32", elements=elements))
        made.append(StateDeclaration(id=f"l{layer}.kv.k", kind="paged_kv", section="main", format="{kv}", elements=8))
        if snapshot:
            ring, kind = f"l{layer}.mix.ring_h", "ring_snapshot"
            made.append(StateDeclaration(id=ring, kind=kind, section="main", format="f16", elements=elements, of=h))
    return made


def compiled(declared: list[StateDeclaration] | msgspec.UnsetType, *, layers: int = 2) -> CircuitCompiled:
    return CircuitCompiled(
        total_layers=layers,
        input_shape=(1, 1),
        output_shape=(1, 1),
        nodes=[],
        has_simd=False,
        simd_num_blocks=0,
        states=declared,
    )


def started(name: str | None = "digits", layers: int = 2) -> ProofStart:
    return ProofStart(model_name=name, backend="cpu", num_layers=layers, input_shape=(1, 1), output_shape=(1, 1))


def layer(index: int = 0) -> list[ProofEvent]:
    begun = LayerStart(
        layer_idx=index,
        kind=LayerKind.MatMul,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=0.0,
        gpu_device=None,
    )
    ended = LayerEnd(
        layer_idx=index,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=0.0,
        duration_ms=1,
        rounds_completed=1,
    )
    return [begun, sumcheck(index), ended]


def sumcheck(index: int = 0) -> SumcheckRound:
    return SumcheckRound(
        layer_idx=index, round=0, total_rounds=1, poly_deg2=None, poly_deg3=None, claim_value_approx=0.0
    )


COMPLETE = ProofComplete(duration_ms=1, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="none")


def run(program: str = "slot_zero", sequences: int = 1, duration_ns: int | None = None) -> StateProgramRun:
    unset = msgspec.UNSET if duration_ns is None else duration_ns
    return StateProgramRun(program=program, sequences=sequences, duration_ns=unset)


def host(**config: Any) -> InlineHost:
    return InlineHost(StateCostPlugin(), config)


def derived(events: Sequence[ProofEvent], **config: Any) -> list[ProofEvent]:
    return host(**config).feed(envelopes(events))


def costs(events: Sequence[ProofEvent]) -> list[StateProgramCost]:
    return [event for event in events if isinstance(event, StateProgramCost)]


def moved(events: Sequence[ProofEvent]) -> list[StateBytesMoved]:
    return [event for event in events if isinstance(event, StateBytesMoved)]


def summary(events: Sequence[ProofEvent]) -> list[tuple[int, str, str, int]]:
    return [(c.proof, c.circuit, c.program, c.bytes) for c in costs(events)]


# Costs of proofs' programs


def test_a_file_prices_every_proof_at_its_beginning() -> None:
    made = derived([started(), *layer(), COMPLETE, started("other"), *layer()], **QWEN)

    assert [(c.proof, c.program) for c in costs(made)] == [(proof, name) for proof in (0, 1) for name in VERIFY]
    assert costs(made)[0] == StateProgramCost(
        proof=0,
        circuit="qwen3.8-27b",
        convention="declared",
        program="verify_checkpoint",
        op="copy",
        recurrent_layers=48,
        bytes=158859264,
        states=[
            StateBytes(group="gdn.h", kind="recurrent", states=48, bytes=150994944),
            StateBytes(group="gdn.conv", kind="recurrent", states=48, bytes=7864320),
        ],
    )
    assert [c.op for c in costs(made)[:4]] == ["copy", "copy", "copy", "zero"]
    assert made == costs(made)


def test_the_plugin_declares_the_kinds_that_it_derives() -> None:
    made = derived([compiled(states()), started(), *layer(), run(), COMPLETE])
    assert {type(event).__name__ for event in made} == set(StateCostPlugin.derives)


def test_a_proof_whose_beginning_was_not_seen_is_priced_too() -> None:
    assert [c.proof for c in costs(derived([sumcheck(), sumcheck()], **QWEN))] == [0] * 4


def test_states_of_the_circuit_price_the_proof_that_it_belongs_to() -> None:
    made = derived([compiled(states()), started(), *layer(), COMPLETE])
    assert summary(made) == [(0, "digits", name, 800) for name in VERIFY]
    (first, *_) = costs(made)
    assert (first.convention, first.recurrent_layers) == ("declared", 2)
    assert first.states == (StateBytes(group="mix.h", kind="recurrent", states=2, bytes=800),)


def test_a_circuit_after_the_start_belongs_to_the_proof_once_a_layer_follows() -> None:
    one = host()
    assert one.feed(envelopes([started(), compiled(states())], close=False)) == []
    assert summary(one.feed(envelopes(layer(), close=False)[1:])) == [(0, "digits", name, 800) for name in VERIFY]
    assert one.feed(envelopes([*layer(1), COMPLETE], close=False)[1:]) == []


def test_a_round_assigns_a_circuit_as_a_layer_does() -> None:
    one = host()
    one.feed(envelopes([started(), sumcheck(), sumcheck()], close=False))
    assert one.feed(envelopes([compiled(states())], close=False)[1:]) == []
    assert summary(one.feed(envelopes([sumcheck()], close=False)[1:])) == [(0, "digits", name, 800) for name in VERIFY]


def test_a_circuit_compiled_once_and_proved_twice_is_priced_twice() -> None:
    made = derived([compiled(states()), started(), COMPLETE, started("again"), COMPLETE])
    assert summary(made) == [
        (proof, name, program, 800) for proof, name in ((0, "digits"), (1, "again")) for program in VERIFY
    ]


def test_another_circuit_within_a_proof_is_priced_again() -> None:
    made = derived([compiled(states()), started(), compiled(states(7)), *layer(), compiled(states(7)), *layer(1)])
    assert [(c.proof, c.bytes) for c in costs(made)] == [(0, 800)] * 4 + [(0, 56)] * 4


def test_programs_of_snapshots_are_priced() -> None:
    made = derived([compiled(states(snapshot=True)), started()])
    assert {c.program: (c.op, c.bytes) for c in costs(made)} == {
        **dict.fromkeys(VERIFY[:3], ("copy", 800)),
        "slot_zero": ("zero", 800),
        "ring_save": ("copy", 400),
        "ring_restore": ("copy", 400),
    }


def test_a_producer_without_states_costs_nothing_and_gets_nothing() -> None:
    one = host()
    assert one.feed(envelopes([compiled(msgspec.UNSET), started(), *layer(), COMPLETE])) == []
    assert one.health() == {"published_costs": 0, "priced_runs": 0}


def test_a_model_without_recurrent_state_has_no_programs() -> None:
    kv = [state for state in states() if state.kind == "paged_kv"]
    one = host()
    assert one.feed(envelopes([compiled(kv), started(), COMPLETE, run()])) == [
        StateBytesMoved(
            circuit="digits",
            convention="declared",
            program="slot_zero",
            runs=1,
            sequences=1,
            bytes=0,
            states=[],
            timed_bytes=0,
            timed_ns=0,
        )
    ]


def test_a_circuit_without_states_is_not_priced_by_those_of_another() -> None:
    made = derived([compiled(states()), started(), COMPLETE, compiled(msgspec.UNSET), started(), COMPLETE, run()])
    assert {c.proof for c in costs(made)} == {0}
    assert moved(made) == []


def test_the_file_wins_and_a_warning_says_once_that_the_producer_differs() -> None:
    events = [compiled(states()), started(), COMPLETE, compiled(states()), started(), COMPLETE]
    made = derived(events, **QWEN)
    assert {c.bytes for c in costs(made)} == {158859264}
    (warning,) = (event for event in made if isinstance(event, Log))
    assert warning.level is LogLevel.Warn
    assert warning.message == (
        "the state circuit qwen3.8-27b (declared) has 158859264 bytes for each sequence, the states that the producer "
        "declares 800; the former is used"
    )


def test_a_file_that_agrees_with_the_producer_gives_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "same.toml"
    path.write_text(
        'name = "same"\nlayers = [{ kind = "a", count = 2 }]\n[layer_kinds]\na = ["mix"]\n[[block.mix.state]]\n'
        'id = "h"\nkind = "recurrent"\nformat = "f32"\nshape = "100"\nverify = "h_steps"\n'
    )
    made = derived([compiled(states()), started(), COMPLETE], file=str(path))
    assert summary(made) == [(0, "same", name, 800) for name in VERIFY]
    assert made == costs(made)


def test_jobs_of_a_server_have_circuits_of_their_own() -> None:
    events = [compiled(states(10)), compiled(states(20)), started("a"), started("b"), run(), run(), COMPLETE, COMPLETE]
    jobs = ["1", "2", "1", "2", "1", "2", "1", "2"]
    opened, *inside, _ = envelopes(events)
    multiplexed = [msgspec.structs.replace(e, job_id=job) for e, job in zip(inside, jobs, strict=True)]
    made = host().feed([opened, *multiplexed])
    assert {(c.proof, c.circuit, c.bytes) for c in costs(made)} == {(0, "a", 80), (1, "b", 160)}
    assert [(m.circuit, m.bytes) for m in moved(made)] == [("a", 80), ("b", 160)]


@pytest.mark.parametrize("path", WIRE, ids=lambda path: path.stem)
def test_ordinals_are_those_of_the_timelines(path: Path) -> None:
    stream = envelopes(read_stream(path))
    timelines = Timelines()
    opened = [c.interval for e in stream for c in timelines.feed(e) if isinstance(c, Opened)]
    expected = [proof.proof_ordinal for proof in opened if isinstance(proof, Proof)]
    made = costs(host(**QWEN).feed(stream))
    assert [c.proof for c in made if c.program == "slot_zero"] == expected


def test_stray_rounds_between_proofs_count_as_the_timelines_count_them() -> None:
    made = derived([started(), *layer(), COMPLETE, sumcheck(), sumcheck(), started(), *layer()], **QWEN)
    assert sorted({c.proof for c in costs(made)}) == [0, 1, 2]


# Bytes that runs moved


def test_runs_are_summed_by_program_in_each_batch() -> None:
    one = host()
    one.feed(envelopes([compiled(states(snapshot=True)), started()], close=False))
    batch = [
        run("verify_checkpoint", 4, 1000),
        run("ring_save", 2),
        run("verify_checkpoint", 3, 500),
        run("verify_checkpoint", 1),
    ]
    assert one.feed(envelopes(batch, close=False)[1:]) == [
        StateBytesMoved(
            circuit="digits",
            convention="declared",
            program="verify_checkpoint",
            runs=3,
            sequences=8,
            bytes=6400,
            states=[StateBytes(group="mix.h", kind="recurrent", states=2, bytes=6400)],
            timed_bytes=5600,
            timed_ns=1500,
        ),
        StateBytesMoved(
            circuit="digits",
            convention="declared",
            program="ring_save",
            runs=1,
            sequences=2,
            bytes=800,
            states=[StateBytes(group="mix.h", kind="recurrent", states=2, bytes=800)],
            timed_bytes=0,
            timed_ns=0,
        ),
    ]
    assert one.feed(envelopes([run()], close=False)[1:])[0] == moved(one.derived)[-1]
    assert one.health() == {"published_costs": 6, "priced_runs": 5}


def test_a_duration_of_zero_counts_as_missing() -> None:
    (only,) = moved(derived([compiled(states()), run(duration_ns=0), run(sequences=2, duration_ns=5)]))
    assert (only.bytes, only.timed_bytes, only.timed_ns) == (2400, 1600, 5)


def test_an_engine_that_proves_nothing_has_its_runs_counted() -> None:
    made = derived([compiled(states()), run(), run("commit_accepted", 2)])
    assert [(m.circuit, m.program, m.bytes) for m in made if isinstance(m, StateBytesMoved)] == [
        (UNNAMED, "slot_zero", 800),
        (UNNAMED, "commit_accepted", 1600),
    ]
    assert costs(made) == []


def test_runs_are_of_the_model_proved_last() -> None:
    made = derived([compiled(states()), started("a"), run(), COMPLETE, started(None), run()])
    assert [m.circuit for m in moved(made)] == ["a", UNNAMED]


def test_a_run_of_a_job_without_a_circuit_has_that_of_its_session() -> None:
    _, circuit, ran, _ = envelopes([compiled(states()), run()])
    (only,) = host().feed([circuit, msgspec.structs.replace(ran, job_id="7")])
    assert isinstance(only, StateBytesMoved)
    assert only.bytes == 800


class CountedList(list[StateDeclaration]):
    """States that count how often they are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        self.compared += 1
        return super().__eq__(other)

    __hash__ = None  # as of every list


def test_a_run_compares_no_circuits_however_many_states_they_have() -> None:
    declared = CountedList(states())
    pricer = StatePricer(None, {}, logging.getLogger(__name__))

    pricer.price_batch(tuple(envelopes([started(), compiled(declared), *layer()])))
    before = declared.compared
    pricer.price_batch(tuple(envelopes([compiled(states()), started(), *[run()] * 100])))

    assert pricer.priced_runs == 100
    assert declared.compared - before < 10


def test_a_file_prices_runs_of_all_sessions() -> None:
    one = host(**QWEN)
    for session in ("a", "b"):
        (only,) = one.feed(envelopes([run(sequences=3)], session_id=session))
        assert isinstance(only, StateBytesMoved)
        assert (only.circuit, only.bytes) == ("qwen3.8-27b", 3 * 158859264)


def test_a_run_without_a_circuit_is_lost_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    one = host()
    assert one.feed(envelopes([run(), run(), started(), run()])) == []
    assert one.health() == {"published_costs": 0, "priced_runs": 0, "lost_runs": 3}
    assert [r.getMessage() for r in caplog.records] == [
        "a state program ran without a state circuit to price it by: its bytes are not counted"
    ]


def test_a_run_of_an_unknown_program_is_lost_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    one = host(**QWEN)
    made = one.feed(envelopes([run("ring_save"), run("\x1b[31m" * 99), run()]))
    assert [m.runs for m in moved(made)] == [1]
    assert one.health()["lost_runs"] == 2
    (record,) = caplog.records
    assert record.getMessage() == f"an unknown state program ran: ring_save; the known ones are {', '.join(VERIFY)}"


def test_without_being_asked_for_nothing_is_lost() -> None:
    one = InlineHost(StateCostPlugin(), asked=False)
    one.feed(envelopes([run()]))
    assert one.health() == {"published_costs": 0, "priced_runs": 0, "unpriced_runs": 1}


def test_bytes_above_64_bits_are_refused_and_others_still_counted(caplog: pytest.LogCaptureFixture) -> None:
    one = host()
    one.feed(envelopes([compiled(states(2**60, layers=1))], close=False))
    made = one.feed(envelopes([run(sequences=4), run(sequences=3), run(sequences=2**64 - 1)], close=False)[1:])
    assert [(m.runs, m.sequences, m.bytes) for m in moved(made)] == [(1, 3, 3 * 2**62)]
    assert one.health() == {"published_costs": 0, "priced_runs": 1, "lost_runs": 2}
    (record,) = caplog.records
    assert "wrote more than 2^64 - 1 bytes: 4 sequences of 4611686018427387904 bytes" in record.getMessage()


def test_sums_above_64_bits_become_several_events() -> None:
    one = host()
    one.feed(envelopes([compiled(states(2**60, layers=1))], close=False))
    made = one.feed(envelopes([run(sequences=3), run(sequences=2), run(sequences=1)], close=False)[1:])
    assert [(m.runs, m.bytes) for m in moved(made)] == [(1, 3 * 2**62), (2, 3 * 2**62)]
    long = [run("commit_accepted", 0, 2**63), run("commit_accepted", 0, 2**63)]
    assert [m.timed_ns for m in moved(one.feed(envelopes(long, close=False)[1:]))] == [2**63, 2**63]


# Mistakes


BROKEN: dict[str, StateDeclaration] = {
    "kind": StateDeclaration(id="l0.x.h", kind="magnetic", section="main", format="f32", elements=1),
    "format": StateDeclaration(id="l0.x.h", kind="recurrent", section="main", format="fp4", elements=1),
    "key": StateDeclaration(id="l0.x.h", kind="recurrent", section="main", format="{h}", elements=1),
    "too large": StateDeclaration(id="l0.x.h", kind="recurrent", section="main", format="f32", elements=2**63),
    "copy of nothing": StateDeclaration(
        id="l0.x.r", kind="ring_snapshot", section="main", format="f32", elements=1, of="l9.x.h"
    ),
    "unprintable": StateDeclaration(id="\x1b[2J", kind="recurrent", section="main", format="f32", elements=1),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_states_are_reported_once_and_counted(what: str, caplog: pytest.LogCaptureFixture) -> None:
    one = host()
    bad = compiled([BROKEN[what]])
    made = one.feed(envelopes([bad, started(), *layer(), COMPLETE, bad, started(), COMPLETE, run()]))
    assert made == []
    assert one.health() == {"published_costs": 0, "priced_runs": 0, "lost_runs": 1, "lost_circuits": 2}
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("the states of a circuit cannot be priced: ")
    assert all(line.isprintable() for line in said)

    good = one.feed(envelopes([compiled(states()), started(), COMPLETE], session_id="next"))
    assert [c.bytes for c in costs(good)] == [800] * 4


def test_broken_states_beside_a_file_are_not_lost() -> None:
    one = host(**QWEN)
    made = one.feed(envelopes([compiled([BROKEN["kind"]]), started(), COMPLETE]))
    assert len(costs(made)) == 4
    assert one.health() == {"published_costs": 4, "priced_runs": 0, "unpriced_circuits": 1}


def test_a_key_of_declared_states_is_configured() -> None:
    made = derived([compiled([BROKEN["key"]]), started()], formats="h=bf16")
    assert {c.bytes for c in costs(made)} == {2}


def test_memory_is_bounded() -> None:
    pricer = StatePricer(None, {}, logging.getLogger("proofstream.test"))
    opened, *_ = envelopes([])
    pricer.price_batch((opened,))
    for job in range(MAX_JOBS + 50):
        _, *inside = envelopes([compiled(states(job + 1)), started(), *layer()], close=False)
        pricer.price_batch(tuple(msgspec.structs.replace(e, job_id=str(job)) for e in inside))
        assert pricer.remembered == min(job + 1, MAX_JOBS) + 2
        _, end = envelopes([COMPLETE], close=False)
        pricer.price_batch((msgspec.structs.replace(end, job_id=str(job)),))
    assert pricer.remembered == MAX_JOBS
    pricer.price_batch(tuple(envelopes([])[1:]))
    assert pricer.remembered == 0


def test_jobs_with_large_circuits_are_remembered_up_to_a_number_of_states() -> None:
    pricer = StatePricer(None, {}, logging.getLogger("proofstream.test"))
    for job in range(6):
        large = compiled(states(job + 1, layers=MAX_STATES // 2))
        for envelope in envelopes([large, started("m" * 10_000), *layer()], close=False):
            pricer.price_batch((msgspec.structs.replace(envelope, job_id=str(job)),))
        assert 0 < pricer.remembered_states <= MAX_REMEMBERED_STATES
    _, ran = envelopes([run()], close=False)
    pricer.price_batch((msgspec.structs.replace(ran, job_id="5"),))
    pricer.price_batch((msgspec.structs.replace(ran, job_id="0"),))
    assert (pricer.priced_runs, pricer.unpriced_runs) == (1, 1)


def test_jobs_with_equal_circuits_share_their_states() -> None:
    pricer = StatePricer(None, {}, logging.getLogger("proofstream.test"))
    for job in range(100):
        for envelope in envelopes([started(), compiled(states()), *layer()], close=False):
            pricer.price_batch((msgspec.structs.replace(envelope, job_id=str(job)),))
    assert pricer.remembered_states == len(states())


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (states(layers=MAX_STATES // 2 + 1), f"the circuit declares {MAX_STATES + 2} states, and at most 16384 are"),
        ([msgspec.structs.replace(states()[0], id="x" * 10**6)], "has more than 1000 characters"),
    ],
)
def test_circuits_that_are_too_large_are_not_kept(
    declared: list[StateDeclaration], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    pricer = StatePricer(None, {}, logging.getLogger("proofstream.test"))
    assert pricer.price_batch(tuple(envelopes([compiled(declared), started(), COMPLETE], close=False))) == []
    assert (pricer.remembered_states, pricer.unpriced_circuits, pricer.published_costs) == (0, 1, 0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert says in line
    assert len(line) < 500


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"file": "nowhere.toml"}, "state-cost.file: nowhere.toml: No such file or directory"),
        ({"file": str(CIRCUIT)}, "no dtype is given for its format {ssm_h_storage}"),
        ({"file": str(CIRCUIT), "convention": "vllm"}, "state-cost.file: convention (--convention) is for a model's"),
        ({"file": "config.json"}, "state-cost.convention: config.json is a model's config.json, which leaves open how"),
        ({"file": "config.json", "convention": "tgi"}, "unknown convention 'tgi'"),
        ({"fiel": "x"}, "state-cost.fiel: there is no such key"),
        ({"file": ""}, "state-cost.file: "),
    ],
)
def test_wrong_settings_are_refused(
    table: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = json.loads((DATA / "state" / "golden.json").read_text())["models"]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": models[0]["model_type"], **models[0]["config"]}))
    with pytest.raises(ConfigError) as caught:
        host(**table)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_json_with_a_convention(tmp_path: Path) -> None:
    model = json.loads((DATA / "state" / "golden.json").read_text())["models"][0]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model["model_type"], **model["config"]}))
    made = derived([started()], file=str(tmp_path / "config.json"), convention="metrale")
    assert {(c.circuit, c.convention, c.recurrent_layers) for c in costs(made)} == {("mamba", "metrale", 24)}
    assert {c.bytes for c in costs(made)} == {
        model["metrale_state_programs_bytes"]["ssm_h_storage_f32"][name] for name in VERIFY
    }


def test_files_and_live_sessions_are_priced() -> None:
    events = envelopes([compiled(states()), started(), COMPLETE])
    assert len(InlineHost(StateCostPlugin(), asked=False, live=False).feed(events)) == 4
    assert len(InlineHost(StateCostPlugin(), asked=True, live=False).feed(events)) == 4
    assert len(InlineHost(StateCostPlugin(), QWEN, asked=False, live=False).feed(events)) == 5, "and a warning"
    assert len(InlineHost(StateCostPlugin(), asked=False, live=True).feed(events)) == 4


def test_others_see_it_in_a_session(caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingPlugin()
    with (
        caplog.at_level(logging.WARNING),
        open_session(plugins=[StateCostPlugin(**QWEN), recording]) as session,
        session.proof(model_name="digits", backend="cpu", num_layers=0, input_shape=(1, 1), output_shape=(1, 1)),
    ):
        session.emit(run("commit_accepted", 2, 1_000_000))
    theirs = [e for e in recording.envelopes if isinstance(e.event, StateProgramCost | StateBytesMoved)]
    assert {(e.origin, e.session_id) for e in theirs} == {(theirs[0].origin, session.session_id)}
    assert [type(e.event).__name__ for e in theirs].count("StateProgramCost") == 4
    (total,) = (e.event for e in theirs if isinstance(e.event, StateBytesMoved))
    assert (total.bytes, total.timed_ns) == (2 * 158859264, 1_000_000)
    assert [r.getMessage() for r in caplog.records] == []
