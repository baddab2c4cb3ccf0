"""Reads single keys of a model's configuration, and names the key in errors about missing or wrong values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, cast

from proofstream import safe_text
from proofstream_state_cost.states.errors import StateError
from proofstream_state_cost.states.state_circuit import Dtype
from proofstream_state_cost.states.u64 import U64_MAX

MAX_LAYERS: Final = 2**16
"""No model has more layers. A larger number is a mistake that would only cost time."""

_SHOWN: Final = 60
"""Characters of a value that a message shows."""

_DTYPES: Final = {
    "float32": Dtype.F32,
    "float": Dtype.F32,
    "float16": Dtype.F16,
    "half": Dtype.F16,
    "bfloat16": Dtype.BF16,
}


class ModelConfigError(StateError):
    """A `config.json` does not describe the recurrent state: a key is missing, or keys contradict each other."""


def shown(value: object) -> str:
    """Return a value as a message shows it: as JSON, which tells `4` from `"4"`, in one short line."""
    return safe_text(json.dumps(value, ensure_ascii=False), _SHOWN)


class ConfigKeys:
    """One table of a configuration, and the assumptions made while it is read.

    A key whose value is null counts as missing, as it does for the models' classes. Numbers are whole numbers as JSON
    writes them; `4.0`, `"4"` and `true` are refused.

    Args:
        table: The table.
        owner: The start of each message: `config.json: model_type nemotron_h`.
        prefix: The prefix of its keys' names: `text_config.`.
        notes: The assumptions, shared with the tables around it.

    Attributes:
        owner: As given.
        notes: The assumptions made so far.
    """

    def __init__(
        self, table: Mapping[str, object], *, owner: str, prefix: str = "", notes: list[str] | None = None
    ) -> None:
        self._table = table
        self.owner = owner
        self._prefix = prefix
        self.notes: list[str] = [] if notes is None else notes

    def name(self, key: str) -> str:
        """Return a key's name in messages."""
        return f"{self._prefix}{key}"

    def names(self, keys: Iterable[str]) -> str:
        """Join several keys in one phrase."""
        return " or ".join(self.name(key) for key in keys)

    def error(self, reason: str, *, hint: str | None = None) -> ModelConfigError:
        """Make the error that gives a reason about this configuration."""
        return ModelConfigError(f"{self.owner}: {reason}", hint=hint)

    def assume(self, sentence: str) -> None:
        """Note an assumption, for the reader of the numbers."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def has(self, key: str) -> bool:
        """Return whether a key has a value."""
        return self._table.get(key) is not None

    def get(self, key: str) -> object:
        """Return the value unchecked; None without one."""
        return self._table.get(key)

    def missing(self, *keys: str, because: str | None = None) -> ModelConfigError:
        """Make the error about a missing key."""
        state = "is null" if len(keys) == 1 and keys[0] in self._table else "is missing"
        return self.error(f"{self.names(keys)} {state}{f': {because}' if because else ''}")

    def count(self, *keys: str, because: str | None = None) -> int:
        """Return the number from 1 on that must stand under one of these names.

        Raises:
            ModelConfigError: It is missing, is not such a number, or two of the names have different values.
        """
        value = self.optional_count(*keys)
        if value is None:
            raise self.missing(*keys, because=because)
        return value

    def optional_count(self, *keys: str) -> int | None:
        """Return the number from 1 on under one of these names, or None if the table has none of them.

        Raises:
            ModelConfigError: It is not such a number, or two of the names have different values.
        """
        found = [(key, self._count(key)) for key in keys if self.has(key)]
        for key, value in found[1:]:
            first, other = found[0]
            if value != other:
                raise self.error(f"{self.name(first)} is {other} and {self.name(key)} is {value}: they contradict")
        return found[0][1] if found else None

    def _count(self, key: str, *, least: int = 1) -> int:
        value = self._table[key]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"{self.name(key)} is {shown(value)}, not a whole number")
        if not least <= value <= U64_MAX:
            raise self.error(f"{self.name(key)} is {shown(value)}, not between {least} and 2^64 - 1")
        return value

    def index(self, key: str) -> int:
        """Return a required number from 0 on.

        Raises:
            ModelConfigError: It is missing or not such a number.
        """
        if not self.has(key):
            raise self.missing(key)
        return self._count(key, least=0)

    def peek(self, key: str) -> int | None:
        """Return a number that is only compared with others, so that a wrong type counts as missing."""
        value = self._table.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def layers(self, key: str = "num_hidden_layers") -> int:
        """Return the number of layers.

        Raises:
            ModelConfigError: It is missing, not a number, or more than any model has.
        """
        value = self.count(key)
        if value > MAX_LAYERS:
            raise self.error(f"{self.name(key)} is {shown(value)}, and no model has more than {MAX_LAYERS} layers")
        return value

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return a list of words, or None without one.

        Raises:
            ModelConfigError: The value is something else.
        """
        values = self._list(key)
        if values is None:
            return None
        for value in values:
            if not isinstance(value, str):
                raise self.error(f"{self.name(key)} has {shown(value)} in it, which is not a word")
        return tuple(cast("list[str]", values))

    def indices(self, key: str, *, end: int) -> frozenset[int] | None:
        """Return a list of different numbers from 0 up to but excluding `end`, or None without one.

        Raises:
            ModelConfigError: The value is something else.
        """
        values = self._list(key)
        if values is None:
            return None
        seen: set[int] = set()
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < end:
                raise self.error(
                    f"{self.name(key)} has {shown(value)} in it, which is not a number from 0 to {end - 1}"
                )
            if value in seen:
                raise self.error(f"{self.name(key)} has {value} in it twice")
            seen.add(value)
        return frozenset(seen)

    def flags(self, key: str) -> tuple[bool, ...] | None:
        """Return a list of zeros and ones as booleans, or None without one.

        Raises:
            ModelConfigError: The value is something else.
        """
        values = self._list(key)
        if values is None:
            return None
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or value not in (0, 1):
                raise self.error(f"{self.name(key)} has {shown(value)} in it, which is neither 0 nor 1")
        return tuple(value == 1 for value in values)

    def _list(self, key: str) -> list[object] | None:
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(f"{self.name(key)} is {shown(value)}, not a list")
        values = cast("list[object]", value)
        if len(values) > MAX_LAYERS:
            raise self.error(f"{self.name(key)} has {len(values)} entries, and no model more than {MAX_LAYERS} layers")
        return values

    def word(self, key: str) -> str | None:
        """Return a word, or None without one.

        Raises:
            ModelConfigError: The value is something else.
        """
        value = self._table.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(f"{self.name(key)} is {shown(value)}, not a word")

    def table(self, key: str) -> ConfigKeys | None:
        """Return a table inside this one, or None without one.

        Raises:
            ModelConfigError: The value is something else.
        """
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{self.name(key)} is {shown(value)}, not a table")
        inner = cast("dict[str, object]", value)
        return ConfigKeys(inner, owner=self.owner, prefix=f"{self.name(key)}.", notes=self.notes)

    def dtype(self, key: str, *, auto: bool = False) -> Dtype | None:
        """Return the dtype that has this name in PyTorch, or None without one.

        Args:
            key: The key.
            auto: Whether it may also be `auto`, which counts as missing.

        Raises:
            ModelConfigError: The value is something else.
        """
        word = self.word(key)
        if word is None or (auto and word == "auto"):
            return None
        dtype = _DTYPES.get(word.removeprefix("torch."))
        if dtype is None:
            raise self.error(f"{self.name(key)} is {shown(word)}; known are bfloat16, float16 and float32")
        return dtype
