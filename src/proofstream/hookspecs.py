"""Declares the hooks: everything that a host can ask of a plugin.

A plugin is a class that a distribution names in the entry-point group ``proofstream``. The host makes one instance,
without arguments, and calls the methods marked with `hookimpl`. A method may take fewer arguments than its hook gives.

What a plugin may rely on:

1. Declaring hooks (plural nouns) are called once, on the thread that makes the host, before any lane exists. They do
   no I/O.
2. Acting hooks (verbs) of one plugin are called on one thread, its lane, and never overlap: configure comes before
   every consume, and unconfigure after them all. A plugin needs no locks for its own state.
3. Envelopes arrive in increasing ``seq``; a batch has one session. Events that a plugin returns from consume are
   published in that session, after their cause.
4. A plugin never receives an event that descends from one of its own.
5. Plugins have no order. One that needs another's output consumes its events.
6. A plugin may be slow. Its lane then drops bulk events first and counts them; nothing else waits for it.
7. A class attribute ``requires`` names the modules that the plugin needs, so that a missing one is known before
   anything is configured. A class attribute ``tick_s`` asks for an empty batch every so many seconds, whether
   events keep coming or not. A class attribute ``autoload = False`` says that the plugin is used only if the user
   asks for it, ``autoload = "command"`` that the command uses it unasked, unless it is to be quiet, and a Python
   process does not. A class attribute ``wanted_by`` names environment variables by which a user wants the plugin: if
   one is set and the plugin cannot be used, a line says so.
   A class attribute ``rederives = "asked"`` says that the plugin gets nothing of recorded sessions unless the user
   asked for it: the events that it derived when they were recorded are replayed. A class attribute ``derives`` names
   the kinds that the plugin derives from a producer's events, possibly after their cause has passed; the others read
   it in ``PluginHealth``. A class attribute ``wants`` names the kinds that the plugin is handed, beside those that
   say where a stream begins, ends and has gaps; without it, that is all. A class attribute ``complete = True`` says
   that gaps spoil the plugin's output: if the user asked for it or gave it settings, its lane has sixteen times the
   room for bulk events, and any event that it was not given ends the run with a line and exit status 1. A class
   attribute ``only_publishes = True`` says that nothing comes from the plugin but events for other plugins: with it
   alone, nothing is worth making an event for. An attribute ``needs_settings = True`` says that the plugin sits a run
   out without settings, so that this is known before it is configured. An attribute ``given_settings`` holds the keys
   of its table that its constructor was given, so that they are checked as the table is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pluggy

from proofstream.catalog import Catalog
from proofstream.contracts import Command, Option, SourceType, Tool
from proofstream.envelopes import Batch
from proofstream.events import ProofEvent
from proofstream.outputs import Output

if TYPE_CHECKING:
    from proofstream.config_table import TableModel

PROJECT = "proofstream"
HOOK_API = 1
"""The version of the hooks. Within one version, hooks and arguments are only added."""

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker(PROJECT)
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker(PROJECT)


class PluginContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context in which the host configures a plugin. Fields are only ever added.

    Attributes:
        config: The plugin's own configuration table, merged from file, environment and flags; not validated.
        catalog: All event types of this host.
        publish: Put an event on the bus. Any thread; never blocks, never raises.
        progress: Tell the host that work moved on although no batch was finished, such as an export that was
            acknowledged. Any thread. A host that is about to end waits for a plugin as long as it makes progress.
        tell: Say one line to the user, as a source's announcement is: on standard error by the command unless it is to
            be quiet, to the logger ``proofstream`` in a Python process. Any thread; never blocks, never raises.
        identity: This host as OpenTelemetry resource attributes: ``service.instance.id``, ``proofstream.version``, ...
        asked: Whether the user asked for the plugin by its name, by one of its flags, or by handing it over.
        live: False while recorded events are replayed: then nothing of this machine's present belongs to them.
        log: The plugin's logger.
        outputs: The results whose files were created for this plugin, empty, by their paths.
    """

    config: Mapping[str, Any]
    catalog: Catalog
    publish: Callable[[ProofEvent], None]
    progress: Callable[[], None]
    tell: Callable[[str], None]
    identity: Mapping[str, str]
    asked: bool
    live: bool
    log: logging.Logger
    outputs: Mapping[Path, Output] = {}


if TYPE_CHECKING:
    PluginResult = Iterable[ProofEvent] | None


class ProofstreamHooks:
    """The specification of each hook."""

    @hookspec
    def proofstream_event_types(self) -> Iterable[type[ProofEvent]]:
        """Declare the plugin's own event types, so that they are decoded and checked.

        When: once, after loading. Thread: the one that makes the host. Failure: the plugin is broken; of two plugins
        that declare one kind, the first-party or installed one keeps it, and the other is broken.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_sources(self, catalog: Catalog) -> Iterable[SourceType]:
        """Declare where envelopes can come from: a URI scheme and how to open it.

        `catalog` has all event types of this host once a source is opened: `LineDecoder(catalog)` decodes lines by it.

        When: once, after loading. Thread: the one that makes the host. Failure: the plugin is broken; of two plugins
        that declare one scheme, the first-party or installed one keeps it, and the other is broken.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_options(self) -> Iterable[Option]:
        """Declare command-line flags. A flag sets a key of the plugin's configuration table, and asks for the plugin.

        When: once, when the command line is built. Thread: main. Failure: the plugin is broken; of two plugins
        that declare one flag, the first-party or installed one keeps it, and the other is broken.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_commands(self) -> Iterable[Command | Tool]:
        """Declare subcommands of ``proofstream`` that run a source, or that work by themselves.

        When: once, when the command line is built. Thread: main. Failure: the plugin is broken; of two plugins
        that declare one command, the first-party or installed one keeps it, and the other is broken.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_settings(self) -> TableModel:
        """Declare the keys of the plugin's configuration table: a pydantic model with ``extra="forbid"``, or a struct.

        The table is checked by it before any lane exists, so that a mistake can be told with its place: the file, the
        variable, the flag or the call. ``proofstream config`` lists the keys; each has its meaning from the section
        ``Attributes:`` of the model's docstring, or from the field's description. Import a pydantic model in the hook,
        because pydantic is slow to load; a `msgspec.Struct` needs it for mistakes and listings alone.

        When: after loading, if the table has keys, or they are listed. Thread: the one that makes the host. Failure:
        logged; the table is not checked before configure.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_capture(self) -> object:
        """Capture something from the thread that opens a session or starts a proof, such as its trace context.

        The value comes back in ``envelope.captured`` under the plugin's name, on SessionOpened or ProofStart. Return
        None to capture nothing. It must be quick and must not import anything.

        When: inside ``open_session`` and ``session.proof()``, never in a bare ``emit``. Thread: the producer's.
        Failure: ignored, logged once; the prover is never disturbed.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_configure(self, context: PluginContext) -> bool | None:
        """Validate the configuration, import heavy packages, open files; return False to sit this run out.

        When: once, before the first batch. Thread: the plugin's lane. Failure: the plugin is broken and gets no
        batches; a ModuleNotFoundError of a module that is not the plugin's own makes it missing instead.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_consume(self, batch: Batch) -> PluginResult:
        """Consume the next envelopes; return events derived from them, or None.

        When: for each batch, in order; with an empty batch every ``tick_s`` seconds. Thread: the plugin's lane.
        Failure: an exception, or a result with anything but events, disables the plugin for the rest of the run.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Report counters that the host cannot see, such as exports given up.

        A counter whose name begins with ``lost_`` says that something the user asked for was not delivered; the command
        then ends with exit status 1.

        When: between batches every few seconds, and after unconfigure. Thread: the plugin's lane. Failure: as in
        consume.
        """
        raise NotImplementedError

    @hookspec
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """Flush and close everything that configure opened, within `timeout_s` seconds.

        When: once, after the last batch; also after a failure, if configure had succeeded. Thread: the plugin's lane.
        Failure: logged; a plugin that takes longer is abandoned and named.
        """
        raise NotImplementedError
