"""Completes the command line in a shell: its own flags and commands, and the names that plugins and the catalog have.

click knows the commands and flags. What may follow a flag or stand for an argument is said here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from proofstream.command.names import COMPLETE
from proofstream.command.plugin_details import settings_of
from proofstream.config import HostSettings
from proofstream.config_variables import HOST_TABLE
from proofstream.contracts import Command, Option, Tool
from proofstream.loader import Registry

_PROGRAM = "proofstream"
# What a form such as tcp://HOST:PORT begins with for every address.
_FIXED = re.compile(r"[^A-Z]*")
_FILE = "file"

Items: TypeAlias = Iterable["CompletionItem[str]"]
_Offer: TypeAlias = Callable[[str], Items]

# Bash cuts words at the characters of COMP_WORDBREAKS, such as the colon of an address. So it hands over the line, and
# of each value only what follows the part that Bash keeps is given to it. Values that a user goes on with get no space.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line="${COMP_LINE:0:COMP_POINT}" typed kept="" with_files="" type value
    typed="${line##*[[:space:]]}"
    typed="${typed##*=}"
    [[ $COMP_WORDBREAKS == *:* && $typed == *:* ]] && kept="${typed%%:*}:"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            plain) COMPREPLY+=("${value#"$kept"}") ;;
            file | dir) with_files=1 ;;
        esac
    done < <(COMP_WORDS="$line" COMP_CWORD=-1 %(complete_var)s=bash_complete "$1" 2>/dev/null)
    if [[ $with_files && ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o default
    elif [[ $with_files ]]; then
        while read -r value; do
            [[ -d $value ]] && value+=/
            printf -v value %%q "$value"
            COMPREPLY+=("$value")
        done < <(compgen -f -- "${typed#"$kept"}")
    fi
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:/=.] ]] && compopt -o nospace
    return 0
}

complete -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a response whole open described
    local type key descr with_files
    response=("${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete \\
        ${(Q)words[1]} 2>/dev/null)}")
    for type key descr in "${response[@]}"; do
        case $type in
            file | dir) with_files=1 ;;
            plain)
                if [[ $descr != _ ]]; then
                    described+=("$key:$descr")
                elif [[ $key == *[:/=.] ]]; then
                    open+=("$key")
                else
                    whole+=("$key")
                fi ;;
        esac
    done
    (( $#described )) && _describe -V values described
    (( $#whole )) && compadd -V whole -a whole
    (( $#open )) && compadd -S '' -V open -a open
    if [[ -n $with_files ]]; then
        compset -P '*[:=]'
        _files
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


class _Bash(BashComplete):
    source_template = _BASH

    def source(self) -> str:
        return ShellComplete.source(self)  # without a look at the version of a shell that may not be the user's

    def get_completion_args(self) -> tuple[list[str], str]:
        if os.environ.get("COMP_CWORD") != "-1":
            return super().get_completion_args()
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() else words.pop()
        return words[1:], incomplete


class _Zsh(ZshComplete):
    source_template = _ZSH


_CLASSES: Mapping[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": FishComplete}


def script(shell: str) -> str:
    """Return the script that lets a shell complete the command."""
    return _CLASSES[shell](click.Group(), {}, _PROGRAM, COMPLETE).source()


def complete(group: click.Group, registry: Registry, instruction: str) -> int:
    """Print what may follow, as the shell's script has asked for it. Returns the exit status.

    Args:
        group: The whole command line.
        registry: The plugins, and what they declare.
        instruction: `SHELL_complete`.
    """
    shell, _, what = instruction.partition("_")
    if shell not in _CLASSES or what != "complete" or "COMP_WORDS" not in os.environ:
        return 1
    offers = _offers(registry)
    for name, command in group.commands.items():
        for param in (*command.params, *group.params):
            offer = offers.get(param.opts[0] if isinstance(param, click.Option) else f"{name} {param.name}")
            if offer is not None:
                param.shell_complete = _completing(offer)  # type: ignore[assignment, method-assign]
    click.echo(_CLASSES[shell](group, {}, _PROGRAM, COMPLETE).complete())
    return 0


def _completing(offer: _Offer) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    def shell_complete(_context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        return [item for item in offer(incomplete) if item.type == _FILE or item.value.startswith(incomplete)]

    return shell_complete


def _offers(registry: Registry) -> Mapping[str, _Offer]:
    """Return what may be the value of a parameter, by its flag or by its command and name."""
    plugins = _names(registry.records)
    return {
        "run source": lambda incomplete: _sources(registry, incomplete),
        "plugins which": plugins,
        "config words": _names([HOST_TABLE, *registry.records]),
        "events which": _names(kind for kind, _, _ in registry.catalog),
        "--plugin": plugins,
        "--no-plugin": plugins,
        "--plugin-file": _files,
        "--set": lambda incomplete: _settings(registry, incomplete),
        **{option.flag: _values_of(option) for option, _ in registry.options.values()},
        **{f"{tool.name} argument": _files for tool, _ in registry.commands.values() if isinstance(tool, Tool)},
    }


def _values_of(option: Option) -> _Offer:
    def offer(incomplete: str) -> Items:
        yield from map(CompletionItem, option.value_prefixes)
        if option.artefact is not None or option.metavar in ("FILE", "PATH", "DIR"):
            yield from _files(incomplete)

    return offer


def _names(names: Iterable[str]) -> _Offer:
    known = list(names)
    return lambda _: map(CompletionItem, known)


def _files(incomplete: str) -> Items:
    return [CompletionItem(incomplete, type=_FILE)]


def _sources(registry: Registry, incomplete: str) -> Items:
    """Offer files, the sources that commands choose from, and what each other form of source begins with."""
    if incomplete.partition(":")[0] not in registry.sources or incomplete.startswith(("file:", "unix:")):
        yield from _files(incomplete)
    commands = [command for command, _ in registry.commands.values() if isinstance(command, Command)]
    chosen = [uri for command in commands for uri in command.sources.values()]
    yield from map(CompletionItem, chosen)
    for source, _ in registry.sources.values():
        begin = _FIXED.match(source.form)
        if begin and begin[0] and not any(uri.startswith(begin[0]) for uri in chosen):
            yield CompletionItem(begin[0])


def _settings(registry: Registry, incomplete: str) -> Items:
    plugin, dot, key = incomplete.partition(".")
    if "=" in key:
        return []
    if not dot:
        return [CompletionItem(f"{name}.") for name in (HOST_TABLE, *registry.records)]
    keys = [f"{HOST_TABLE}.{key}" for key in HostSettings.__struct_fields__] if plugin == HOST_TABLE else []
    keys += [f"{plugin}.{option.key}" for option, owner in registry.options.values() if owner == plugin]
    if plugin in registry.records:
        keys += [row["key"] for row in settings_of(registry.records[plugin])]
    return [CompletionItem(f"{key}=") for key in dict.fromkeys(keys)]
