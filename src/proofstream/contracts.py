"""What plugins declare: sources, command-line options, commands."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from proofstream.events import ProofEvent
    from proofstream.wire import Decoded, Refusal


class SessionFeed(Protocol):
    """One session as a source fills it."""

    session_id: str

    def deliver(self, chunk: Sequence[Decoded]) -> None:
        """Put what was decoded on the bus, in order. A source that waits is held here while plugins are behind."""
        ...

    def emit(self, event: ProofEvent) -> None:
        """Put one event made in Python on the bus. Never blocks, never raises."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Count and report one line that could not be read."""
        ...

    def close(self, outcome: str = "ended", reason: str | None = None) -> None:
        """End the session. Calling it again does nothing."""
        ...


class Feed(Protocol):
    """How a source reaches the host."""

    def open_session(
        self,
        *,
        source: str,
        time_source: str,
        session_id: str | None = None,
        opened_at: int | None = None,
        recorded: bool = False,
    ) -> SessionFeed:
        """Begin a session.

        Args:
            source: Where it comes from, as shown to a person.
            time_source: `envelope`, `arrival` or `reconstructed`.
            session_id: A recorded or reproducible id; a fresh one by default.
            opened_at: Nanoseconds since the epoch of its beginning; now by default.
            recorded: The source itself delivers the recorded SessionOpened, so the host makes none; likewise `close`
                after a recorded SessionClosed was delivered adds none.
        """
        ...

    def announce(self, text: str) -> None:
        """Tell the person who runs the command something, such as the address listened on."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the source was told to stop."""
        ...


class Source(Protocol):
    """An opened source."""

    def run(self, feed: Feed) -> None:
        """Deliver until the source ends or is stopped. Called once, on a thread of its own.

        Raises:
            SourceError: It cannot be opened or read on.
        """
        ...

    def stop(self) -> None:
        """Make `run` return soon. Any thread, any time."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRequest:
    """What the user asked of a source.

    Attributes:
        uri: The whole SOURCE argument.
        follow: Wait for more at the end of a file.
        once: End after the first session.
        speed: Pace events by their own time, so many times as fast; None for as fast as possible.
        max_line_bytes: The longest line that is read.
    """

    uri: str
    follow: bool = False
    once: bool = False
    speed: float | None = None
    max_line_bytes: int = 16 * 2**20

    @property
    def rest(self) -> str:
        """What follows the scheme and its colon."""
        return self.uri.partition(":")[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceType:
    """A kind of source.

    Attributes:
        scheme: The part before the colon, such as `tcp`; `file` and `-` are the core's own.
        form: How it is written, as shown in help: `tcp://HOST:PORT`.
        summary: One line for the listing.
        open: Makes a source; raises SourceError or UsageError on what can be known without I/O. A live source
            may begin to read here; plugins are waited for before it runs.
        live: Whether events happen while they are read. False for recordings.
        waits: Whether the source may be held back while plugins are behind. False for live sockets.
    """

    scheme: str
    form: str
    summary: str
    open: Callable[[SourceRequest], Source]
    live: bool
    waits: bool


CORE_FLAGS = frozenset(
    {"--config", "--follow", "--help", "--json", "--no-plugin", "--once", "--plugin", "--plugin-file", "--quiet"}
    | {"--set", "--speed", "--strict", "--verbose", "--version"}
)
"""The command's own flags, which no plugin may declare."""

CORE_COMMANDS = frozenset({"events", "plugins", "run", "sources"})
"""The command's own subcommands, which no plugin may declare."""

_FLAG = re.compile(r"--[a-z][a-z0-9]*(-[a-z0-9]+)*")


class OptionKind(enum.Enum):
    """How a command-line flag takes its value."""

    SWITCH = "switch"
    """``--name`` and ``--no-name``: True or False."""
    VALUE = "value"
    """``--name VALUE``."""
    OPTIONAL_VALUE = "optional value"
    """``--name [VALUE]``: the next word is the value if it starts with one of `value_prefixes`; else it is empty."""
    REPEATED = "repeated"
    """``--name VALUE --name VALUE``: a list of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Artefact:
    """A file or folder that a flag can be asked to write when a command keeps its results together.

    Attributes:
        name: The path below the folder of results.
        next_step: One line on what to do with it; ``{path}`` stands for where it is, ``{command}`` for how the command
            was called, ``{folder}`` for what to type before another program that is installed beside it.
        form: How the flag's value is made of the path.
        settings: Keys of the plugin's configuration table that are set along with it.
    """

    name: str
    next_step: str
    form: str = "{path}"
    settings: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        """Check what is filled in later, when a mistake would cost a run its last lines.

        Raises:
            ValueError: `form` does not hold ``{path}`` once, or `next_step` holds a placeholder of another name.
        """
        if self.form.count("{path}") != 1:
            raise ValueError(f"artefact {self.name!r}: the form {self.form!r} must hold {{path}} once")
        try:
            self.next_step.format(path="", command="", folder="")
        except (LookupError, ValueError):
            message = f"artefact {self.name!r}: the next step may hold {{path}}, {{command}} and {{folder}} only"
            raise ValueError(message) from None

    def value_for(self, path: Path) -> str:
        """Return the flag's value that asks for the file or folder at `path`."""
        return self.form.replace("{path}", str(path))

    def path_in(self, value: object) -> Path | None:
        """Return the path that a value of the flag asks for; None if it asks for something else."""
        before, _, after = self.form.partition("{path}")
        text = str(value) if isinstance(value, str | Path) else ""
        middle = text.removeprefix(before).removesuffix(after)
        return Path(middle) if middle and f"{before}{middle}{after}" == text else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A command-line flag of a plugin.

    Attributes:
        flag: The flag, with its dashes.
        key: The key of the plugin's configuration table that it sets.
        kind: How it takes its value.
        summary: One line for the help.
        metavar: The value's name in the help.
        value_prefixes: For an optional value: what the next word must start with to be it.
        artefact: What the flag writes, if a command may turn it on to keep its results.
    """

    flag: str
    key: str
    kind: OptionKind
    summary: str
    metavar: str = "VALUE"
    value_prefixes: tuple[str, ...] = ()
    artefact: Artefact | None = None

    def __post_init__(self) -> None:
        """Check the flag's form.

        Raises:
            ValueError: It is not two dashes and words of small letters and digits with dashes between them, or a switch
                has an artefact.
        """
        if not _FLAG.fullmatch(self.flag):
            raise ValueError(f"flag {self.flag!r} is not of the form --some-name")
        if self.kind is OptionKind.SWITCH and self.artefact is not None:
            raise ValueError(f"flag {self.flag!r} is a switch: it has no value that could say where an artefact lies")

    @property
    def flags(self) -> tuple[str, ...]:
        """The flag, and the one that says the opposite if there is one."""
        if self.kind is not OptionKind.SWITCH:
            return (self.flag,)
        return self.flag, "--no-" + self.flag.removeprefix("--")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A subcommand of ``proofstream`` that runs one of several sources, with all the flags of ``run``.

    Attributes:
        name: Its name.
        summary: One line for the help.
        sources: The SOURCE to run by the word that chooses it; the first one is the default.
        artefacts_dir: The folder, below the current one, into which every flag with an artefact writes.
    """

    name: str
    summary: str
    sources: Mapping[str, str]
    artefacts_dir: str

    def __post_init__(self) -> None:
        """Check that there is something to run.

        Raises:
            ValueError: There are no sources.
        """
        if not self.sources:
            raise ValueError(f"command {self.name!r} has no sources")


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        argument: What stands in the place of its argument.
        settings: The plugin's configuration table, merged from file, environment, ``--set`` and the tool's own
            options by their keys; not validated.
        as_json: Whether ``--json`` was given: then standard output gets JSON and nothing else.
        write: Write text to standard output.
        note: Say a line to the person who runs the command, on standard error.
    """

    argument: str
    settings: Mapping[str, Any]
    as_json: bool
    write: Callable[[str], None]
    note: Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A subcommand of ``proofstream`` that works on something by itself, without a source and without a host.

    Attributes:
        name: Its name.
        summary: One line for the help.
        argument: The name of its argument in the help, such as `FILE`.
        options: Its own flags. They set keys of the plugin's configuration table for this call.
        run: Does the work and returns the exit status; raises ProofstreamError for what the person who calls it can
            mend, which is shown as one line with exit status 2.
    """

    name: str
    summary: str
    argument: str
    options: tuple[Option, ...]
    run: Callable[[ToolCall], int]

    def __post_init__(self) -> None:
        """Check that its flags can be told apart.

        Raises:
            ValueError: A flag is there twice, or is the command's own.
        """
        flags = [flag for option in self.options for flag in option.flags]
        for index, flag in enumerate(flags):
            if flag in CORE_FLAGS or flag in flags[:index]:
                raise ValueError(f"command {self.name!r} cannot declare the flag {flag!r}: there is one already")
