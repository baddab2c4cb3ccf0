"""Reading the command line before any plugin is imported, and taking optional values apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proofstream.contracts import Option, OptionKind
from proofstream.errors import UsageError

_BARE_ADDRESS = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+|\[[0-9a-fA-F:.]+\]):\d+(/.*)?")


@dataclass(kw_only=True, slots=True)
class EarlyArguments:
    """What the command line says about plugins and configuration.

    Attributes:
        config: The configuration file, if one is named.
        asked: Plugins that must work.
        blocked: Plugins that must not be imported.
    """

    config: Path | None = None
    asked: list[str] = field(default_factory=list[str])
    blocked: list[str] = field(default_factory=list[str])


def read_early(arguments: Sequence[str]) -> EarlyArguments:
    """Find ``--config``, ``--plugin`` and ``--no-plugin``; anything else is left to the full parser."""
    early = EarlyArguments()
    words = list(arguments)
    if "--" in words:
        words = words[: words.index("--")]
    for word, following in zip(words, [*words[1:], None], strict=False):  # there may be no words
        flag, equals, value = word.partition("=")
        if not equals:
            if following is None:
                break
            value = following
        match flag:
            case "--config":
                early.config = Path(value)
            case "--plugin":
                early.asked.append(value)
            case "--no-plugin":
                early.blocked.append(value)
            case _:
                pass
    return early


def settle_optional_values(arguments: Sequence[str], options: Iterable[Option]) -> list[str]:
    """Write each ``--flag [VALUE]`` as ``--flag=VALUE``, so that a parser need not guess whose word the next one is.

    Raises:
        UsageError: The next word is an address without what the value must start with.
    """
    prefixes = {option.flag: option.value_prefixes for option in options if option.kind is OptionKind.OPTIONAL_VALUE}
    settled: list[str] = []
    words = iter(enumerate(arguments))
    for index, word in words:
        if word == "--":
            return [*settled, *arguments[index:]]
        if word not in prefixes:
            settled.append(word)
            continue
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if _BARE_ADDRESS.fullmatch(following) and prefixes[word]:
            raise UsageError(f"{word} {following}: write {' or '.join(prefixes[word])} before the address")
        if following.startswith(prefixes[word]) and prefixes[word]:
            settled.append(f"{word}={following}")
            next(words, None)
        else:
            settled.append(f"{word}=")
    return settled
