"""Runs ``proofstream state-cost FILE``."""

from __future__ import annotations

import json
import shutil
import sys

from proofstream import ToolCall, UsageError
from proofstream_state_cost.settings import Settings, read_settings
from proofstream_state_cost.states.errors import MissingFormat
from proofstream_state_cost.tool import answer
from proofstream_state_cost.tool.cost_document import cost_document
from proofstream_state_cost.tool.priced_circuit import PricedCircuit, price_circuit, unread_note
from proofstream_state_cost.tool.state_file import StateFile, read_state_file

_PIPE_WIDTH = 100


def run_state_cost(call: ToolCall) -> int:
    """Print the answer. Returns the exit status.

    Raises:
        ProofstreamError: FILE, an option or their combination is not acceptable, or a number is too large; one line.
    """
    settings = read_settings(call.settings)
    found = read_state_file(call.argument, settings)
    if call.as_json and not found.chosen:
        names = ", ".join(counted.convention for counted in found.counted)
        raise UsageError(
            f"--json needs --convention: {found.path} is a model's config.json, which leaves open how states are "
            "counted",
            hint=f"choose one of {names}",
        )
    all_priced = _price_all(found, settings)
    if call.as_json:
        for key in all_priced[0].unread:
            call.note(unread_note(key))
        call.write(json.dumps(cost_document(all_priced[0], settings), indent=2))
    else:
        call.write(_as_text(found, all_priced, settings).removesuffix("\n"))
    return 0


def _price_all(found: StateFile, settings: Settings) -> list[PricedCircuit]:
    try:
        return [price_circuit(counted, settings) for counted in found.counted]
    except MissingFormat as error:
        raise UsageError(str(error), hint=f"give one, as in --format {error.key}=bf16") from None


def _as_text(found: StateFile, all_priced: list[PricedCircuit], settings: Settings) -> str:
    colour = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if colour else _PIPE_WIDTH
    if found.chosen:
        parts = answer.one_convention(all_priced[0], settings, width=width)
    else:
        parts = answer.several_conventions(all_priced, settings, left_out=found.left_out)
    return answer.render_text(parts, width=width, colour=colour)
