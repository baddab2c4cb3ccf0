"""Parses the command line and prints, nothing else.

Standard output is for listings and ``--json``; everything else goes to standard error. A mistake is one line with a
hint, and exit status 2.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import proofstream
from proofstream.command import listings
from proofstream.command.arguments import EarlyArguments, read_early, settle_optional_values
from proofstream.command.draining import pipes_among, read_on
from proofstream.command.logs import set_up_logging, traceback_hint
from proofstream.command.names import COMPLETE, SHELLS, unknown
from proofstream.command.plugin_files import load_plugin_file
from proofstream.command.process import end_soon, fill_standard_streams, handle_interrupts, on_signals
from proofstream.command.results import columns_of_standard_error, lines_about, make_folders, spare_source
from proofstream.command.voice import voice
from proofstream.config_variables import HOST_TABLE
from proofstream.contracts import Command, Option, OptionKind, SourceRequest, Tool, ToolCall
from proofstream.errors import ProofstreamError, UsageError, describe, did_you_mean, in_parentheses
from proofstream.health import PluginStatus
from proofstream.loader import PluginRecord, Registry, Selection, entry_points, load
from proofstream.outputs import make_private_folder
from proofstream.reservations import results_asked
from proofstream.sources.arrivals import stop_early

if TYPE_CHECKING:
    from proofstream.config import Config
    from proofstream.run import RunRequest

EXIT_USAGE = 2
_log = logging.getLogger(__name__)
_HELP_WORDS = ("--help", "-h", "--version")
_TRUST, _COMPLETION = "trust", "completion"
_OF_LISTINGS = ("config", "no_plugin", "plugin", "plugin_file", "traceback", "verbose")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status. Without arguments, use the process's own, and end it soon."""
    if arguments is None:
        fill_standard_streams()
    status = _main(sys.argv[1:] if arguments is None else list(arguments))
    try:
        stop_early()  # a mistake on the command line may have come before the source was opened
        voice.finish()  # plugins and sources have not waited for their lines
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    if arguments is None:
        end_soon(status)
    return status


def _main(words: list[str]) -> int:
    app: _App | None = None
    try:
        with_help = not words or any(word in _HELP_WORDS for word in words)
        early = read_early(words)
        set_up_logging(verbose=early.verbosity, tracebacks=early.tracebacks, environ=os.environ)
        # The file that is to be trusted may be wrong, and needs no warning that it is not trusted.
        app = _App(early, reads_config=not with_help and words[0] not in (_TRUST, _COMPLETION))
        if COMPLETE in os.environ:
            from proofstream.command.completion import complete

            return complete(app.group(), app.registry, os.environ[COMPLETE])
        handle_interrupts()
        options = (option for option, _ in app.registry.options.values())
        words = settle_optional_values(words or ["--help"], options, app.registry.sources)
        status = app.group().main(words, prog_name="proofstream", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except ProofstreamError as error:
        pipes = [app.source] if app is not None and app.source is not None else pipes_among(words)
        return _complain(str(error), error.hint, pipes)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        # Not every error of click has a context; without one, the first word is all that is known.
        command = context.command_path if context else " ".join(("proofstream", *words[:1]))
        unknown = isinstance(error, click.NoSuchOption | click.exceptions.NoSuchCommand)
        why = app.unusable_plugins() if app is not None and unknown else []
        return _complain(error.format_message(), f"see: {command} --help", pipes_among(words), why)
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except OSError as error:
        # stdout is closed or full. Redirect it, so that the flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            _tell(f"error: {error.strerror or error}")
        return 1


def _complain(message: str, hint: str | None, pipes: Sequence[str], why: Sequence[str] = ()) -> int:
    _tell(f"error: {message}")
    for line in why:
        _tell(line)
    if hint:
        _tell(f"hint: {hint}")
    read_on(pipes, _post)
    return EXIT_USAGE


def _tell(text: str) -> None:
    voice.say(f"proofstream: {text}")


def _post(text: str) -> None:
    voice.post(f"proofstream: {text}")


def _show_results(results: Sequence[tuple[Path, str]]) -> None:
    if not results:
        return
    _tell("the results, and what to do with them:")
    for line in lines_about(results, columns=columns_of_standard_error()):
        voice.say(line)


class _App:
    """Holds the plugins and configuration of one invocation, and makes the commands from them."""

    def __init__(self, early: EarlyArguments, *, reads_config: bool) -> None:
        found = entry_points()
        from_files = [load_plugin_file(path) for path in early.plugin_files]
        names = {point.name for point in found} | {name for name, _ in from_files}
        self.source: str | None = None
        self.asked_by_name: list[str] = early.asked
        self.from_files: list[str] = [name for name, _ in from_files]
        self.config: Config | None = _load_config(early, names) if reads_config else None
        allowed = self.config.host.plugins if self.config is not None else None
        selection = Selection(
            asked=frozenset((*self.asked_by_name, *self.from_files)),
            blocked=frozenset(early.blocked),
            allowed=None if allowed is None else frozenset(allowed),
        )
        self.registry: Registry = load(selection, found=found, named=from_files, traceback_hint=traceback_hint())
        if self.config is not None:
            self.config.warn_of_strangers(self.registry)

    def unusable_plugins(self) -> list[str]:
        """Return lines about the plugins whose flags and commands are not known, because they could not be asked."""
        records = self.registry.records.values()
        switched_off = [record.name for record in records if record.status is PluginStatus.DISABLED]
        broken = [_about(record) for record in records if record.status is PluginStatus.BROKEN]
        if switched_off:
            broken.append(f"switched off, and their flags and commands with them: {', '.join(switched_off)}")
        return broken

    def group(self) -> click.Group:
        """Make the whole command line."""
        # It is read long before; here it is accepted in front of a subcommand, too, whose plugin it may name.
        plugin_file = [param for param in _general_params() if param.name == "plugin_file"]
        for param in plugin_file:
            param.expose_value = False
        summary = (proofstream.__doc__ or "").partition("\n")[0]
        settings = {"help_option_names": ["-h", "--help"]}  # the subcommands have them, too
        group = click.Group(name="proofstream", params=plugin_file, help=summary, context_settings=settings)
        version = click.version_option(proofstream.__version__, message="%(prog)s %(version)s")
        group = version(group)
        group.add_command(self._run_command())
        for command, plugin in self.registry.commands.values():
            made = self._tool(command, plugin) if isinstance(command, Tool) else self._source_command(command)
            group.add_command(made)
        group.add_command(self._config_command())
        group.add_command(_trust_command())
        plugins, events = "List plugins and their status, or describe one.", "List event types, or describe one."
        group.add_command(_listing("plugins", plugins, self.registry, listings.plugins, self._describe_plugin))
        group.add_command(_listing("events", events, self.registry, listings.events, self._describe_event))
        group.add_command(_listing("sources", "List where events can come from.", self.registry, listings.sources))
        group.add_command(_completion_command())
        return group

    # Descriptions

    def _describe_plugin(self, name: str) -> dict[str, Any]:
        from proofstream.command.plugin_details import describe_plugin

        record = self.registry.records.get(name)
        if record is None:
            raise unknown("plugin", name, self.registry.records)
        return describe_plugin(record, self.registry)

    def _describe_event(self, name: str) -> dict[str, Any]:
        from proofstream.command.kinds import describe_kind

        for kind, event_type, owner in self.registry.catalog:
            if kind == name:
                return describe_kind(kind, event_type, owner, self.registry.catalog)
        raise unknown("event type", name, [kind for kind, _, _ in self.registry.catalog])

    # Commands that work by themselves

    def _tool(self, tool: Tool, plugin: str) -> click.Command:
        def callback(argument: str, as_json: bool, **values: Any) -> int:
            self.registry.require(plugin)
            config = self._config()
            self._configure(config, [(option, plugin) for option in tool.options], values)
            config.settle(self.registry, only=[plugin])
            note = _say_nothing if values["quiet"] else _tell
            settings = config.table(plugin)
            call = ToolCall(argument=argument, settings=settings, as_json=as_json, write=click.echo, note=note)
            return self._run_tool(tool, call, plugin)

        argument = click.Argument(["argument"], metavar=tool.argument)
        as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
        general = [param for param in _general_params() if param.name != "strict"]
        params = [argument, *map(_param, tool.options), as_json, *general]
        return click.Command(tool.name, params=params, callback=callback, help=tool.summary, short_help=tool.summary)

    def _run_tool(self, tool: Tool, call: ToolCall, plugin: str) -> int:
        try:
            return tool.run(call)
        except (ProofstreamError, OSError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a third-party tool may raise anything, also a Rust panic
            _log.debug("the command %s failed", tool.name, exc_info=True)
            label, hint = self.registry.records[plugin].label, in_parentheses(traceback_hint())
            _tell(f"plugin {label} failed: {describe(error)}{hint}")
            return 1

    def _config_command(self) -> click.Command:
        def callback(words: tuple[str, ...], as_json: bool, **values: Any) -> int:
            from proofstream.command import settings

            config = self._config()
            self._configure(config, self.registry.options.values(), values)
            config.settle(self.registry)
            keys = settings.chosen(settings.keys_of(config, self.registry.settings_models()), words)
            if as_json:
                import json

                click.echo(json.dumps(settings.for_programs(keys), indent=2))
            else:
                import shutil

                for line in settings.for_people(keys, columns=shutil.get_terminal_size().columns):
                    click.echo(line)
            return 0

        which = click.Argument(["words"], metavar="[TABLE|KEY]...", nargs=-1)
        as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
        params = [which, as_json, *_general_params(), *self._plugin_params()]
        summary = "List all settings: what each means, its value, and where that comes from."
        return click.Command("config", params=params, callback=callback, help=summary)

    # Commands that run a source

    def _run_command(self) -> click.Command:
        source = click.Argument(["source"], metavar="SOURCE")
        params = [source, *_reading_params(), *_general_params(), *self._plugin_params()]
        summary = "Read events from SOURCE and hand them to the plugins."
        forms = "\n".join(f"  {s.form:<22} {s.summary}" for s, _ in self.registry.sources.values())
        text = f"{summary}\n\n\b\nSOURCE is one of\n{forms}"
        return click.Command("run", params=params, callback=self._run, help=text, short_help=summary)

    def _source_command(self, command: Command) -> click.Command:
        names = list(command.sources)
        which = click.Argument(["which"], type=click.Choice(names), required=False, default=names[0])

        def callback(which: str, **values: Any) -> int:
            folder = Path(command.artefacts_dir)
            unused = {param.name: None for param in _reading_params()}
            return self._run(command.sources[which], folder, **unused, **values)

        params = [which, *_general_params(), *self._plugin_params()]
        text = f"{command.summary.rstrip('.')}. The results are written into ./{command.artefacts_dir}."
        return click.Command(command.name, params=params, callback=callback, help=text, short_help=text)

    def _keep_results(self, folder: Path, values: Mapping[str, Any]) -> list[str]:
        """Turn on every flag that writes a result and was not given; return the plugins that have one."""
        from proofstream.config import by_call

        try:
            make_private_folder(folder)
        except OSError as error:
            _tell(f"the results are not kept: cannot make {folder}: {error.strerror or error}")
            return []
        turned_on: list[str] = []
        for option, plugin in self.registry.options.values():
            usable = self.registry.records[plugin].status.is_usable
            if option.artefact is None or not usable or _is_given(option, values):
                continue
            value = option.artefact.value_for(folder / option.artefact.name)
            named = {option.key: [value] if option.kind is OptionKind.REPEATED else value}
            self._config().put(plugin, {**named, **option.artefact.settings}, by_call("the command"))
            turned_on.append(plugin)
        return turned_on

    def _run(self, source: str, keep_in: Path | None = None, **values: Any) -> int:
        from proofstream.run import Run

        self.source = source
        request = self._request(source, keep_in, values)
        for record in self.registry.records.values():
            if record.status is PluginStatus.BROKEN:
                _tell(_about(record))
        in_use = {*request.asked, *request.wanted}
        tables = {name: table for name, table in request.config.tables.items() if name in in_use}
        results = results_asked(self.registry.options.values(), tables)
        spare_source(source, results)
        make_folders(results, optional=request.optional)
        run = Run(request)
        on_signals(run.stop)
        result = run.run()
        for problem in result.report.problems:
            _tell(f"not delivered: {problem}")
        if result.report.refused:
            _tell(f"not delivered: {result.report.refused} refused")
        if not values["quiet"]:
            _show_results(result.written)
        if result.source_failed:
            read_on([source], _post)
        return result.exit_status

    def _request(self, source: str, keep_in: Path | None, values: Mapping[str, Any]) -> RunRequest:
        from proofstream.run import RunRequest

        config = self._config()
        # Only settings that the user wrote make a plugin required, not those that the command adds for its results.
        before = {name: table.keys() for name, table in config.tables.items()}
        turned_on = [] if keep_in is None else self._keep_results(keep_in, values)
        self._configure(config, self.registry.options.values(), values)
        config.settle(self.registry)
        settled = {name for name, keys in before.items() if keys & config.table(name).keys()}
        settled.update(text.partition(".")[0] for text in values["set"])
        chosen = self._chosen(values)
        asked = list(dict.fromkeys((*chosen, *self.from_files)))
        by_command, autoload = not values["quiet"], config.host.plugin_autoload
        used_unasked = self.registry.enabled(by_command=by_command) if autoload else []
        for name in (*asked, *settled.intersection(used_unasked)):
            self.registry.require(name)
        for line in self.registry.unmet_wishes(used_unasked, os.environ):
            _tell(line)
        automatic = self.registry.automatic(by_command=by_command) if autoload else []
        switched_off = {plugin for option, plugin in self._given(values) if values[_variable(option)] is False}
        return RunRequest(
            registry=self.registry,
            config=config,
            request=SourceRequest(
                uri=source,
                follow=bool(values["follow"]),
                once=bool(values["once"]),
                speed=values["speed"],
                max_pause_s=values["max_pause"],
                model_name=values["name"],
                max_line_bytes=config.host.max_line_bytes,
            ),
            asked=asked,
            wanted=[name for name in (*automatic, *turned_on) if name not in asked and name not in switched_off],
            optional=frozenset(turned_on) - settled - set(chosen),
            say=_say_nothing if values["quiet"] else _tell,
            tell=_say_nothing if values["quiet"] else _post,
            traceback_hint=traceback_hint(),
        )

    def _config(self) -> Config:
        if self.config is None:
            raise UsageError("this command reads no configuration")
        return self.config

    def _configure(self, config: Config, options: Iterable[tuple[Option, str]], values: Mapping[str, Any]) -> None:
        from proofstream.config import by_call, parse_set

        for option, plugin in options:
            if _is_given(option, values):
                config.put(plugin, {option.key: _value(option, values)}, by_call(option.flag))
        if values.get("strict"):
            config.put(HOST_TABLE, {"strict": True}, by_call("--strict"))
        for text in values["set"]:
            table, key, value = parse_set(text)
            if table not in (HOST_TABLE, *self.registry.records):
                known = ", ".join(self.registry.records)
                near = did_you_mean(table, [HOST_TABLE, *self.registry.records])
                raise UsageError(f"--set {text}: no plugin is named {table!r}{near}", hint=f"installed: {known}")
            config.put(table, {key: value}, by_call("--set"))
        config.settle_host()

    def _given(self, values: Mapping[str, Any]) -> list[tuple[Option, str]]:
        return [(o, plugin) for o, plugin in self.registry.options.values() if _is_given(o, values)]

    def _chosen(self, values: Mapping[str, Any]) -> list[str]:
        """Return the plugins that the user asked for by name or by a flag."""
        by_flag = [plugin for option, plugin in self._given(values) if values[_variable(option)] is not False]
        return [*self.asked_by_name, *by_flag]

    def _plugin_params(self) -> list[click.Parameter]:
        return [_param(option) for option, _ in self.registry.options.values()]


def _trust_command() -> click.Command:
    def callback(path: Path, *, revoke: bool) -> int:
        from proofstream.command.trusting import revoke_file, trust_file

        (revoke_file if revoke else trust_file)(path, os.environ, _tell)
        return 0

    params: list[click.Parameter] = [
        click.Argument(["path"], metavar="[FILE]", required=False, type=click.Path(path_type=Path), default=Path()),
        click.Option(["--revoke"], is_flag=True, help="Trust it no more."),
    ]
    summary = "Use the proofstream.toml or pyproject.toml of a folder, the current one by default, until it changes."
    return click.Command(_TRUST, params=params, callback=callback, help=summary, short_help=summary)


def _about(record: PluginRecord) -> str:
    hint = in_parentheses(record.hint)
    return f"plugin {record.label} is {record.status.value}: {record.reason}{hint}"


def _load_config(early: EarlyArguments, names: set[str]) -> Config:
    from proofstream.config import load_config, parse_set  # not for --help: pydantic takes a third of its time

    # They may say which plugins to load. A malformed one is complained of when all arguments are read.
    of_host = [text for text in early.sets if text.startswith(f"{HOST_TABLE}.") and "=" in text]
    parsed = [parse_set(text) for text in of_host]
    host = {key: value for _, key, value in parsed}
    config = load_config(plugins=names, path=early.config, environ=os.environ, call={HOST_TABLE: host}, called="--set")
    if config.origin is not None and early.verbosity >= 0:
        _tell(f"settings from {config.origin}")
    return config


def _variable(option: Option) -> str:
    return "flag_" + option.flag.lstrip("-").replace("-", "_")


def _is_given(option: Option, values: Mapping[str, Any]) -> bool:
    return values.get(_variable(option)) not in (None, ())


def _value(option: Option, values: Mapping[str, Any]) -> Any:
    value = values[_variable(option)]
    return list(value) if option.kind is OptionKind.REPEATED else value


def _param(option: Option) -> click.Parameter:
    variable = _variable(option)
    if option.kind is OptionKind.SWITCH:
        return click.Option(["/".join(option.flags), variable], default=None, help=option.summary)
    metavar = f"[{option.metavar}]" if option.kind is OptionKind.OPTIONAL_VALUE else option.metavar
    repeated = option.kind is OptionKind.REPEATED
    return click.Option([option.flag, variable], default=None, metavar=metavar, multiple=repeated, help=option.summary)


def _reading_params() -> list[click.Parameter]:
    return [
        click.Option(["--follow"], is_flag=True, help="Wait for more at the end of a file."),
        click.Option(["--once"], is_flag=True, help="End after the first connection."),
        click.Option(
            ["--speed"],
            type=click.FloatRange(min=0, min_open=True),
            default=None,
            help="Pace events by their own time, so many times as fast; as fast as possible by default.",
        ),
        click.Option(
            ["--max-pause"],
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="With --speed: wait no longer than this for the next event.",
        ),
        click.Option(["--name"], metavar="MODEL", help="Call the model so, where the prover gives it no name."),
    ]


def _general_params() -> list[click.Parameter]:
    return [
        click.Option(["--config"], type=click.Path(path_type=Path), help="Read this configuration file."),
        click.Option(["--plugin"], multiple=True, metavar="NAME", help="Require a plugin."),
        click.Option(
            ["--plugin-file"],
            multiple=True,
            metavar="FILE",
            help="Require the plugin in a Python file, and run that file.",
        ),
        click.Option(["--no-plugin"], multiple=True, metavar="NAME", help="Do not even import a plugin."),
        click.Option(
            ["--set"],
            multiple=True,
            metavar="PLUGIN.KEY=VALUE",
            help="Set a key of a plugin's configuration, or of proofstream's own: host.KEY=VALUE.",
        ),
        click.Option(["--strict"], is_flag=True, help="End the run when a plugin fails."),
        click.Option(["--traceback"], is_flag=True, help="Show where in its code a plugin or source failed."),
        click.Option(["-v", "--verbose"], count=True, help="Say more; twice for everything."),
        click.Option(["-q", "--quiet"], count=True, help="Say only what went wrong."),
    ]


def _listing(
    name: str,
    summary: str,
    registry: Registry,
    rows_of: Callable[[Registry], list[dict[str, Any]]],
    describe_one: Callable[[str], dict[str, Any]] | None = None,
) -> click.Command:
    def callback(as_json: bool, which: str | None = None, **_: Any) -> int:
        from proofstream.command.tables import print_details, print_rows

        found = rows_of(registry) if which is None or describe_one is None else describe_one(which)
        if as_json:
            import json  # loading it takes as long as all of the help's text does

            click.echo(json.dumps(found, indent=2))
        elif isinstance(found, dict):
            print_details(found)
        else:
            print_rows(listings.for_people(found))
        return 0

    which = [] if describe_one is None else [click.Argument(["which"], metavar="[NAME]", required=False)]
    shared = [param for param in _general_params() if param.name in _OF_LISTINGS]
    as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
    return click.Command(name, params=[*which, as_json, *shared], callback=callback, help=summary)


def _completion_command() -> click.Command:
    def callback(shell: str) -> int:
        from proofstream.command.completion import script

        click.echo(script(shell), nl=False)
        return 0

    summary = 'Print the script that completes this command in a shell: eval "$(proofstream completion bash)".'
    shell = click.Argument(["shell"], type=click.Choice(SHELLS))
    return click.Command(_COMPLETION, params=[shell], callback=callback, help=summary, short_help=summary)


def _say_nothing(_text: str) -> None:
    return None
