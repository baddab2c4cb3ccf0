"""Prices a model's recurrent state: what the programs that move it around a speculative verify cost in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from proofstream import Batch, Option, OptionKind, PluginContext, ProofEvent, Tool, ToolCall, hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from proofstream_state_cost.pricer import StatePricer
    from proofstream_state_cost.states.costing import CircuitCosts
    from proofstream_state_cost.states.state_circuit import Dtype

_TOOL_OPTIONS = (
    Option(
        flag="--format",
        key="formats",
        kind=OptionKind.REPEATED,
        metavar="KEY=DTYPE",
        summary="The dtype of a format key, such as ssm_h_storage=f32; f32, f16, bf16 or fp8.",
    ),
    Option(
        flag="--convention",
        key="convention",
        kind=OptionKind.VALUE,
        metavar="NAME",
        summary="How the states of a config.json are counted: metrale, transformers, vllm or sglang; by default all.",
    ),
    Option(
        flag="--conv-columns",
        key="conv_columns",
        kind=OptionKind.VALUE,
        metavar="COLUMNS",
        summary="Stored columns of a convolution's window, K or K-1; by default as the convention says.",
    ),
    Option(
        flag="--conv-dtype",
        key="conv_dtype",
        kind=OptionKind.VALUE,
        metavar="DTYPE",
        summary="Dtype of stored windows, or {key}; by default as the convention says.",
    ),
    Option(
        flag="--h-dtype",
        key="h_dtype",
        kind=OptionKind.VALUE,
        metavar="DTYPE",
        summary="Dtype of stored temporal states, or {key}; by default as the convention says.",
    ),
    Option(
        flag="--speculative-tokens",
        key="speculative_tokens",
        kind=OptionKind.VALUE,
        metavar="N",
        summary="Speculated tokens, each of which adds a column to vllm's windows.",
    ),
    Option(
        flag="--snapshots",
        key="snapshots",
        kind=OptionKind.SWITCH,
        summary="Also count the programs of ring and prefix snapshots, in f32 as Metrale keeps them.",
    ),
    Option(
        flag="--slots",
        key="slots",
        kind=OptionKind.VALUE,
        metavar="N",
        summary="Plan memory for N sequences at once, including the padding sequence.",
    ),
    Option(
        flag="--verify-steps",
        key="verify_steps",
        kind=OptionKind.VALUE,
        metavar="K",
        summary="Plan memory for speculative verifies of K rows each.",
    ),
    Option(
        flag="--kv-blocks",
        key="kv_blocks",
        kind=OptionKind.VALUE,
        metavar="N",
        summary="Plan memory for a KV cache of N blocks.",
    ),
    Option(
        flag="--kv-block-size",
        key="kv_block_size",
        kind=OptionKind.VALUE,
        metavar="M",
        summary="Tokens in each block of the KV cache.",
    ),
    Option(
        flag="--rate",
        key="rate",
        kind=OptionKind.VALUE,
        metavar="R",
        summary="Show the bytes a second that R verifies a second of one sequence write.",
    ),
)


def _run_tool(call: ToolCall) -> int:
    from proofstream_state_cost.tool.command import (
        run_state_cost,  # only here, so that `--help` loads neither rich nor pydantic
    )

    return run_state_cost(call)


def _read(table: Mapping[str, Any]) -> tuple[CircuitCosts | None, Mapping[str, Dtype]]:
    """Return the costs of the file that the table names, and the dtype of each format key."""
    from proofstream_state_cost.settings import read_settings

    settings = read_settings(table)
    if settings.file is None:
        return None, settings.formats
    from proofstream_state_cost.tool.state_file import costs_of_file

    return costs_of_file(settings), settings.formats


class StateCostPlugin:
    """The plugin `state-cost`.

    A recording already holds the costs that were derived when it was made. They are derived again only if the user asks
    for the plugin, because the file that they rest on may not be at hand.

    Args:
        settings: Values that override the configuration table `[state-cost]`.
    """

    autoload: ClassVar[bool] = True
    rederives: ClassVar[str] = "asked"
    derives: ClassVar[tuple[str, ...]] = ("StateProgramCost", "StateBytesMoved")
    # What begins or ends an interval, since costs say the ordinal of their proof; and what is to be priced.
    only_publishes: ClassVar[bool] = True
    wants: ClassVar[tuple[str, ...]] = (
        "AggregatedBindingEnd",
        "AggregatedBindingStart",
        "CircuitCompiled",
        "LayerEnd",
        "LayerStart",
        "PhaseEnd",
        "PhaseStart",
        "ProofAborted",
        "ProofComplete",
        "ProofStart",
        "StarkProofEnd",
        "StarkProofStart",
        "StateProgramRun",
        "SumcheckRound",
        "WeightOpeningEnd",
        "WeightOpeningStart",
    )

    def __init__(self, **settings: Any) -> None:
        self.given_settings = settings
        self._pricer: StatePricer | None = None
        self._asked = False
        self._has_file = False

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """Declare ``--state-cost FILE``."""
        summary = "Price recurrent state by FILE, a state circuit or a model's config.json."
        return [Option(flag="--state-cost", key="file", kind=OptionKind.VALUE, summary=summary, metavar="FILE")]

    @hookimpl
    def proofstream_commands(self) -> Iterable[Tool]:
        """Declare ``proofstream state-cost FILE``."""
        summary = "Show what the recurrent state of a model costs in bytes."
        return [Tool(name="state-cost", summary=summary, argument="FILE", options=_TOOL_OPTIONS, run=_run_tool)]

    @hookimpl
    def proofstream_settings(self) -> type[BaseModel]:
        """Declare the keys of the table."""
        from proofstream_state_cost.settings import Settings

        return Settings

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Read the settings and the file that they name.

        The plugin never sits a run out: whether there are states to price shows only when a circuit is compiled.
        """
        from proofstream_state_cost.pricer import StatePricer

        table = {**context.config, **self.given_settings}
        costs: CircuitCosts | None = None
        formats: Mapping[str, Dtype] = {}
        if table:
            costs, formats = _read(table)
        self._has_file = costs is not None
        self._asked = context.asked or self._has_file
        self._pricer = StatePricer(costs, formats, context.log)
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[ProofEvent] | None:
        """Publish the costs of proofs' programs, and the bytes that runs moved."""
        return self._pricer.price_batch(batch) if self._pricer is not None and batch else None

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Return the counts of what was priced and what could not be; the latter is lost if it was asked for."""
        pricer = self._pricer
        if pricer is None:
            return {}
        runs = "lost_runs" if self._asked else "unpriced_runs"
        circuits = "lost_circuits" if self._asked and not self._has_file else "unpriced_circuits"
        missing = {runs: pricer.unpriced_runs, circuits: pricer.unpriced_circuits}
        counted = {"published_costs": pricer.published_costs, "priced_runs": pricer.priced_runs}
        return counted | {name: count for name, count in missing.items() if count}
