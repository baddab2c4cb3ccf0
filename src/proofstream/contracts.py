"""Defines what plugins declare: sources, command-line options, commands."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from proofstream.events import ProofEvent
    from proofstream.wire import Decoded, Refusal


class SessionFeed(Protocol):
    """A session as a source fills it."""

    session_id: str

    def deliver(self, chunk: Sequence[Decoded]) -> None:
        """Put decoded lines on the bus, in order. A source that waits is held here while plugins are behind."""
        ...

    def drop_bulk(self, counts: Mapping[str, int]) -> None:
        """Count events that the source left out between the last delivery and the next, by kind.

        For bulk that a source does not even decode while `Feed.overloaded` is true. The session gets an EventsLost in
        their place, and the report counts them.
        """
        ...

    def emit(self, event: ProofEvent) -> None:
        """Put one event made in Python on the bus. Never blocks, never raises."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Count and report a line that could not be read."""
        ...

    def close(self, outcome: str = "ended", reason: str | None = None) -> None:
        """End the session. Calling it again does nothing.

        Args:
            outcome: `ended`, `lost` or `interrupted`.
            reason: Why it ended, or None.

        Raises:
            UsageError: The outcome is another word.
        """
        ...


class Feed(Protocol):
    """A source's way to the host."""

    def open_session(
        self,
        *,
        source: str,
        time_source: str,
        session_id: str | None = None,
        opened_at: int | None = None,
        opened_time_source: str | None = None,
        time_resolution_ns: int | None = None,
        recorded: bool = False,
    ) -> SessionFeed:
        """Open a session.

        Args:
            source: Where it comes from, as shown to the user.
            time_source: `envelope`, `arrival` or `reconstructed`.
            session_id: A recorded or reproducible id; a new one by default.
            opened_at: When it began, in nanoseconds since the epoch; now by default.
            opened_time_source: Where that time comes from, if not from where the session's times come.
            time_resolution_ns: How far apart two times of the session must lie to be told apart, in nanoseconds.
            recorded: The source itself delivers the recorded SessionOpened, so the host adds none. In the same way,
                `close` adds none after a recorded SessionClosed.

        Raises:
            UsageError: The time source is another word.
        """
        ...

    def announce(self, text: str) -> None:
        """Show the user a line, such as the address that the source listens on."""
        ...

    @property
    def overloaded(self) -> bool:
        """Whether bulk has little chance to be shown: a source that cannot wait should leave it out undecoded."""
        ...

    @property
    def congested(self) -> bool:
        """Whether plugins are so far behind that facts may be lost: a source should hold them as long as it can."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """How many bytes a source that cannot wait may hold undecoded, of all its peers together."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the source must stop."""
        ...


class Source(Protocol):
    """An opened source."""

    def run(self, feed: Feed) -> None:
        """Deliver until the source ends or is stopped. Called once, on a thread of its own.

        Raises:
            SourceError: It cannot be opened, or not be read any further.
        """
        ...

    def stop(self) -> None:
        """Make `run` return soon. Any thread, at any time."""
        ...


class SourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The user's request to a source.

    Attributes:
        uri: The whole SOURCE argument.
        follow: Whether to wait for more at the end of a file.
        once: Whether to end after the first session.
        speed: How many times as fast as their own times events are paced; None for as fast as possible.
        max_pause_s: The longest that pacing waits for the next event, in seconds; None for as long as it takes.
        model_name: What the user calls the model of proofs for which the prover gives no name.
        max_line_bytes: The longest line that is read.
    """

    uri: str
    follow: bool = False
    once: bool = False
    speed: float | None = None
    max_pause_s: float | None = None
    model_name: str | None = None
    max_line_bytes: int = 16 * 2**20

    @property
    def rest(self) -> str:
        """The part after the scheme and its colon."""
        return self.uri.partition(":")[2]


class SourceType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of source.

    Attributes:
        scheme: The part before the colon, such as `tcp`; `file` and `-` belong to the core.
        form: The SOURCE argument as the help shows it: `tcp://HOST:PORT`.
        summary: One line for the listing.
        open: Makes a source; raises SourceError or UsageError for mistakes that show without I/O. A live source
            may begin to read here; it runs once the plugins are ready.
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
    {"--config", "--follow", "--help", "--json", "--max-pause", "--name", "--no-plugin", "--once", "--plugin"}
    | {"--plugin-file", "--quiet", "--set", "--speed", "--strict", "--traceback", "--verbose", "--version"}
)
"""The command's own flags. Plugins may not declare them."""

CORE_COMMANDS = frozenset({"completion", "config", "events", "plugins", "run", "sources", "trust"})
"""The command's own subcommands. Plugins may not declare them."""

_FLAG = re.compile(r"--[a-z][a-z0-9]*(-[a-z0-9]+)*")


class OptionKind(enum.Enum):
    """The way in which a command-line flag takes its value."""

    SWITCH = "switch"
    """``--name`` and ``--no-name``: True or False."""
    VALUE = "value"
    """``--name VALUE``."""
    OPTIONAL_VALUE = "optional value"
    """``--name [VALUE]``: the next word is the value if it begins with one of `value_prefixes`; else it is empty."""
    REPEATED = "repeated"
    """``--name VALUE --name VALUE``: a list of them."""


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """The file or folder that a flag's value names, which the plugin writes.

    Attributes:
        name: Its path below the folder in which a command keeps its results together.
        next_step: One line on what to do with it. ``{path}`` stands for its path, ``{command}`` for the way the command
            was called, ``{folder}`` for what to type before another program that is installed beside it.
        form: The flag's value, made from ``{path}``.
        settings: Keys of the plugin's configuration table that are set along with it.
        files: What is created before the plugin is configured, so that runs which start at once share nothing: ``.``
            for the file itself, or for a folder the names of files in it. Without any, only a free name is chosen.
    """

    name: str
    next_step: str
    form: str = "{path}"
    settings: Mapping[str, object] = {}
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the placeholders: they are filled in when a run ends, and a mistake would cost it its last lines.

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


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A command-line flag of a plugin.

    Attributes:
        flag: The flag, with its dashes.
        key: The key of the plugin's configuration table that it sets.
        kind: The way in which it takes its value.
        summary: One line for the help.
        metavar: The value's name in the help.
        value_prefixes: For an optional value: the beginnings by which the next word is known to be the value.
        artefact: The file or folder that the value names, if the plugin writes one.
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
            ValueError: The flag is not two dashes and words of small letters and digits with dashes between them, or a
                switch has an artefact.
        """
        if not _FLAG.fullmatch(self.flag):
            raise ValueError(f"flag {self.flag!r} is not of the form --some-name")
        if self.kind is OptionKind.SWITCH and self.artefact is not None:
            raise ValueError(f"flag {self.flag!r} is a switch: it has no value that could say where an artefact lies")

    @property
    def flags(self) -> tuple[str, ...]:
        """The flag and, for a switch, its opposite."""
        if self.kind is not OptionKind.SWITCH:
            return (self.flag,)
        return self.flag, "--no-" + self.flag.removeprefix("--")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A subcommand of ``proofstream`` that runs one of several sources, with all the flags of ``run``.

    Attributes:
        name: Its name.
        summary: One line for the help.
        sources: Each SOURCE by the word that chooses it; the first one is the default.
        artefacts_dir: The folder, below the current one, that every flag with an artefact writes to.
    """

    name: str
    summary: str
    sources: Mapping[str, str]
    artefacts_dir: str

    def __post_init__(self) -> None:
        """Check that it can run something.

        Raises:
            ValueError: It has no sources.
        """
        if not self.sources:
            raise ValueError(f"command {self.name!r} has no sources")


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool.

    Attributes:
        argument: The value of its argument.
        settings: The plugin's configuration table, merged from file, environment, ``--set`` and the tool's own
            options by their keys; not validated.
        as_json: Whether ``--json`` was given: then standard output gets JSON and nothing else.
        write: Write text to standard output.
        note: Show the user a line on standard error.
    """

    argument: str
    settings: Mapping[str, Any]
    as_json: bool
    write: Callable[[str], None]
    note: Callable[[str], None]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A subcommand of ``proofstream`` that works on one argument by itself, without a source and without a host.

    Attributes:
        name: Its name.
        summary: One line for the help.
        argument: The name of its argument in the help, such as `FILE`.
        options: Its own flags. They set keys of the plugin's configuration table for this call.
        run: Does the work and returns the exit status. Raises ProofstreamError for mistakes that the user can mend;
            they are shown as one line, with exit status 2.
    """

    name: str
    summary: str
    argument: str
    options: tuple[Option, ...]
    run: Callable[[ToolCall], int]

    def __post_init__(self) -> None:
        """Check that its flags can be told apart.

        Raises:
            ValueError: A flag is declared twice, or is the command's own.
        """
        flags = [flag for option in self.options for flag in option.flags]
        for index, flag in enumerate(flags):
            if flag in CORE_FLAGS or flag in flags[:index]:
                raise ValueError(f"command {self.name!r} cannot declare the flag {flag!r}: it exists already")
