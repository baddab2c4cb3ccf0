"""Reads the command line before any plugin is imported, and settles optional values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from proofstream.contracts import Option, OptionKind
from proofstream.errors import UsageError

_EARLY = ("--config", "--no-plugin", "--plugin", "--plugin-file", "--set")
_VERBOSITY = re.compile(r"-[vq]+")
_BARE_ADDRESS = re.compile(r"([\w-]+(\.[\w-]+)*|\[[0-9a-fA-F:.]+\]):\d+(/.*)?")


class EarlyArguments(msgspec.Struct, kw_only=True):
    """The arguments about plugins, configuration and logging.

    Attributes:
        config: The configuration file, if one is named.
        asked: Plugins that must work.
        blocked: Plugins that must not be imported.
        plugin_files: Files that each hold a plugin.
        sets: What ``--set`` sets.
        verbosity: The number of ``-v``, less that of ``-q``.
        tracebacks: Whether the tracebacks of failures are to be shown.
    """

    config: Path | None = None
    asked: list[str] = []
    blocked: list[str] = []
    plugin_files: list[Path] = []
    sets: list[str] = []
    verbosity: int = 0
    tracebacks: bool = False


def read_early(arguments: Sequence[str]) -> EarlyArguments:
    """Return the arguments that are needed before the full parser, which knows the flags of plugins, can be made."""
    words = list(arguments)
    if "--" in words:
        words = words[: words.index("--")]
    named: dict[str, list[str]] = {flag: [] for flag in _EARLY}
    for word, following in zip(words, [*words[1:], None], strict=False):  # there may be no words
        flag, equals, value = word.partition("=")
        text = value if equals else following
        if flag in named and text is not None:
            named[flag].append(text)
    return EarlyArguments(
        config=Path(named["--config"][-1]) if named["--config"] else None,
        asked=named["--plugin"],
        blocked=named["--no-plugin"],
        plugin_files=[Path(text) for text in named["--plugin-file"]],
        sets=named["--set"],
        verbosity=sum(map(_verbosity, words)),
        tracebacks="--traceback" in words,
    )


def _verbosity(word: str) -> int:
    if _VERBOSITY.fullmatch(word):
        return word.count("v") - word.count("q")
    return {"--verbose": 1, "--quiet": -1}.get(word, 0)


def settle_optional_values(
    arguments: Sequence[str], options: Iterable[Option], schemes: Collection[str] = ()
) -> list[str]:
    """Write each ``--flag [VALUE]`` as ``--flag=VALUE``, so that the parser need not guess about the next word.

    A URL that no source has the scheme of is the value, too, if the flag takes URLs: its plugin says why it cannot be.

    Raises:
        UsageError: The next word is an address without the beginning that the value must have.
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
        is_source = following.partition(":")[0] in schemes
        if _BARE_ADDRESS.fullmatch(following) and prefixes[word] and not is_source:
            raise UsageError(f"{word} {following}: write {' or '.join(prefixes[word])} before the address")
        is_url = "://" in following and not is_source
        if prefixes[word] and (is_url or following.startswith(prefixes[word])):
            settled.append(f"{word}={following}")
            next(words, None)
        else:
            settled.append(f"{word}=")
    return settled
