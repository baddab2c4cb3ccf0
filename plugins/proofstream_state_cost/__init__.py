"""Prices a model's recurrent state: what the programs that move it around a speculative verify cost in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from proofstream import Batch, Option, OptionKind, PluginContext, ProofEvent, Tool, ToolCall, hookimpl

if TYPE_CHECKING:
    from proofstream_state_cost.pricer import StatePricer
    from proofstream_state_cost.settings import Settings
    from proofstream_state_cost.states.costing import CircuitCosts

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
        summary="How the states of a config.json are counted: metrale, transformers, vllm or sglang; else all of them.",
    ),
    Option(
        flag="--conv-columns",
        key="conv_columns",
        kind=OptionKind.VALUE,
        metavar="COLUMNS",
        summary="Columns of a convolution's window that are stored, K or K-1; else as the convention has it.",
    ),
    Option(
        flag="--conv-dtype",
        key="conv_dtype",
        kind=OptionKind.VALUE,
        metavar="DTYPE",
        summary="What windows are stored as, a dtype or {key}; else as the convention has it.",
    ),
    Option(
        flag="--h-dtype",
        key="h_dtype",
        kind=OptionKind.VALUE,
        metavar="DTYPE",
        summary="What temporal states are stored as, a dtype or {key}; else as the convention has it.",
    ),
    Option(
        flag="--speculative-tokens",
        key="speculative_tokens",
        kind=OptionKind.VALUE,
        metavar="N",
        summary="Columns that vllm's windows have besides, for so many speculated tokens.",
    ),
    Option(
        flag="--snapshots",
        key="snapshots",
        kind=OptionKind.SWITCH,
        summary="Count the programs of ring and prefix snapshots as well, in f32 as Metrale keeps them.",
    ),
    Option(
        flag="--slots",
        key="slots",
        kind=OptionKind.VALUE,
        metavar="N",
        summary="Plan memory for so many sequences at once, the padding one included.",
    ),
    Option(
        flag="--verify-steps",
        key="verify_steps",
        kind=OptionKind.VALUE,
        metavar="K",
        summary="Plan memory for speculative verifies of K rows.",
    ),
    Option(
        flag="--kv-blocks",
        key="kv_blocks",
        kind=OptionKind.VALUE,
        metavar="N",
        summary="Plan memory for so many blocks of KV cache.",
    ),
    Option(
        flag="--kv-block-size",
        key="kv_block_size",
        kind=OptionKind.VALUE,
        metavar="M",
        summary="Tokens in a block of KV cache.",
    ),
    Option(
        flag="--rate",
        key="rate",
        kind=OptionKind.VALUE,
        metavar="R",
        summary="Say what R verifies a second of one sequence come to in bytes a second.",
    ),
)


def _run_tool(call: ToolCall) -> int:
    from proofstream_state_cost.tool.command import run  # rich and pydantic are not for `--help`

    return run(call)


def _given_costs(settings: Settings) -> CircuitCosts | None:
    if settings.file is None:
        return None
    from proofstream_state_cost.tool.state_file import costs_of_file

    return costs_of_file(settings)


class StateCostPlugin:
    """The plugin `state-cost`.

    A recording has the costs that were derived when it was made. Unless somebody asks for the plugin they are not
    derived anew: the file that they rest on may not be at hand.

    Args:
        settings: Values of the configuration table `[state-cost]`, which win over it.
    """

    autoload: ClassVar[bool] = True
    rederives: ClassVar[str] = "asked"

    def __init__(self, **settings: Any) -> None:
        self._given = settings
        self._follower: StatePricer | None = None
        self._asked = False
        self._has_file = False

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """``--state-cost FILE``."""
        summary = "Price recurrent state by FILE, a state circuit or a model's config.json."
        return [Option(flag="--state-cost", key="file", kind=OptionKind.VALUE, summary=summary, metavar="FILE")]

    @hookimpl
    def proofstream_commands(self) -> Iterable[Tool]:
        """``proofstream state-cost FILE``."""
        summary = "Say what the recurrent state of a model costs in bytes."
        return [Tool(name="state-cost", summary=summary, argument="FILE", options=_TOOL_OPTIONS, run=_run_tool)]

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Read the settings and the file that they name."""
        from proofstream_state_cost.pricer import StatePricer
        from proofstream_state_cost.settings import read_settings

        settings = read_settings({**context.config, **self._given})
        self._has_file = settings.file is not None
        self._asked = context.asked or self._has_file
        self._follower = StatePricer(_given_costs(settings), settings.formats, context.log)
        return True

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[ProofEvent] | None:
        """Publish what proofs' programs cost, and what runs have moved."""
        return self._follower.feed(batch) if self._follower is not None and batch else None

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """What was published and counted; and what could not be, as lost if it was asked for."""
        follower = self._follower
        if follower is None:
            return {}
        runs = "lost_runs" if self._asked else "unpriced_runs"
        circuits = "lost_circuits" if self._asked and not self._has_file else "unpriced_circuits"
        missing = {runs: follower.unpriced_runs, circuits: follower.broken_circuits}
        counted = {"published_costs": follower.costs, "priced_runs": follower.runs}
        return counted | {name: count for name, count in missing.items() if count}
