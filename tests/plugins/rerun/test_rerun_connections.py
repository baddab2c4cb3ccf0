"""Connections, as given to --rerun: what each form means, and the error line for each mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import rerun as rr
from hypothesis import given
from hypothesis import strategies as st

from proofstream import ConfigError
from proofstream_rerun.connections import File, Serve, Spawn, Viewer, check_files, parse_connection, parse_connections


@pytest.mark.parametrize(
    ("text", "connection"),
    [
        ("spawn", Spawn()),
        (" spawn ", Spawn()),
        ("serve", Serve()),
        ("serve:9999", Serve(9999)),
        ("file:proof.rrd", File(Path("proof.rrd"))),
        ("file:/tmp/a folder/b:c.rrd", File(Path("/tmp/a folder/b:c.rrd"))),
        ("file:~/proof.rrd", File(Path.home() / "proof.rrd")),
        ("127.0.0.1:9876", Viewer("127.0.0.1", 9876)),
        ("gpu-box.example.org:9876", Viewer("gpu-box.example.org", 9876)),
        ("[::1]:9876", Viewer("::1", 9876)),
        ("tcp://localhost:9876", Viewer("localhost", 9876)),
        ("tcp://[::ffff:1.2.3.4]:1", Viewer("::ffff:1.2.3.4", 1)),
        ("tcp://serve:9876", Viewer("serve", 9876)),
        ("rerun+http://localhost:9876", Viewer("localhost", 9876)),
        ("rerun+http://localhost:9876/", Viewer("localhost", 9876)),
        ("rerun+http://localhost:9876/proxy", Viewer("localhost", 9876)),
        ("rerun+https://hub.example.org", Viewer("hub.example.org", 443, tls=True)),
        ("rerun://hub.example.org:65535/proxy", Viewer("hub.example.org", 65535, tls=True)),
    ],
)
def test_each_form_is_parsed(text: str, connection: object) -> None:
    assert parse_connection(text) == connection


@pytest.mark.parametrize(
    ("viewer", "url"),
    [
        (Viewer("localhost", 9876), "rerun+http://localhost:9876/proxy"),
        (Viewer("::1", 9876), "rerun+http://[::1]:9876/proxy"),
        (Viewer("hub.example.org", 443, tls=True), "rerun+https://hub.example.org:443/proxy"),
    ],
)
def test_the_url_is_the_one_that_rerun_takes(viewer: Viewer, url: str) -> None:
    assert viewer.url == url
    rr.GrpcSink(url)


@given(st.text(alphabet="aZ09.-_:[]/", max_size=12), st.sampled_from(["", "tcp://", "rerun+http://", "rerun://"]))
def test_rerun_takes_every_viewer_that_we_take(authority: str, scheme: str) -> None:
    for text in (f"{scheme}{authority}", f"{scheme}{authority}:1"):
        try:
            connection = parse_connection(text)
        except ConfigError:
            continue
        assert isinstance(connection, Viewer)
        rr.GrpcSink(connection.url)


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("", "it is empty", "write spawn, serve, "),
        ("  ", "it is empty", "write spawn, serve, "),
        ("spwan", "spwan is not spawn, serve or file", "did you mean spawn?"),
        ("Spawn", "Spawn is not spawn, serve or file", "did you mean spawn?"),
        ("serv", "serv is not spawn, serve or file", "did you mean serve?"),
        (
            "serv:9999",
            "serv is not spawn, serve or file",
            "did you mean serve:9999? A host of that name is tcp://serv:9999",
        ),
        (
            "files:9999",
            "files is not spawn, serve or file",
            "did you mean file:9999? A host of that name is tcp://files:9999",
        ),
        ("fiel:proof.rrd", "fiel is not spawn, serve or file", "did you mean file:proof.rrd?"),
        ("spawn:9876", "spawn stands alone", "write spawn, or HOST:PORT for a viewer that is running"),
        ("serve:", "it has no port", "write serve:9877"),
        ("serve:0", "'0' is not a port", "a port is a number from 1 to 65535"),
        ("serve:http", "'http' is not a port", "a port is a number from 1 to 65535"),
        ("file", "it names no file", "write file:proof.rrd"),
        ("file:", "it names no file", "write file:proof.rrd"),
        ("file: proof.rrd", "it names no file", "write file:proof.rrd"),
        ("file:/", "it names no file", "write file:/proof.rrd"),
        ("file:///tmp/proof.rrd", "a path stands right after file:", "write file:/tmp/proof.rrd"),
        ("proof.rrd", "a file is named by file:PATH", "write file:proof.rrd"),
        ("./out/proof.rrd", "a file is named by file:PATH", "write file:./out/proof.rrd"),
        ("localhost", "it is not spawn, serve or file, and has no port", "write localhost:9876 for a viewer there"),
        ("localhost:", "it has no port", "write localhost:9876"),
        ("localhost:99999", "'99999' is not a port", "a port is a number from 1 to 65535"),
        ("localhost:-1", "'-1' is not a port", "a port is a number from 1 to 65535"),
        ("localhost:98 76", "'98 76' is not a port", "a port is a number from 1 to 65535"),
        ("localhost:\u0663", "'\u0663' is not a port", "a port is a number from 1 to 65535"),
        ("local host:9876", "'local host' is not a host name", "write spawn, serve, "),
        (":9876", "it names no host", "write spawn, serve, "),
        ("::1:9876", "an IPv6 address is written in brackets", "write [::1]:9876"),
        ("[::1", "an IPv6 address is written [ADDRESS]:PORT", "write [::1]:9876"),
        ("[::1]9876", "an IPv6 address is written [ADDRESS]:PORT", "write [::1]:9876"),
        ("[fe80::1%eth0]:9876", "an IPv6 address is written [ADDRESS]:PORT", "write [::1]:9876"),
        ("127.0.0.256:9876", "'127.0.0.256' is not a host name", "write spawn, serve, "),
        ("127.0.0:9876", "'127.0.0' is not a host name", "write spawn, serve, "),
        ("[localhost]:9876", "an IPv6 address is written [ADDRESS]:PORT", "write [::1]:9876"),
        ("[::1]", "it is not spawn, serve or file, and has no port", "write [::1]:9876 for a viewer there"),
        ("tcp://localhost", "it has no port", "write tcp://localhost:9876"),
        ("tcp://", "it names no host", "write spawn, serve, "),
        ("tcp://localhost:9876/proxy", "/proxy is not a known path", "leave /proxy out"),
        ("rerun+http://localhost", "it has no port", "write rerun+http://localhost:9876"),
        ("rerun+http://localhost:9876/catalog", "/catalog is not a known path", "leave /catalog out"),
        ("http://localhost:9876", "http:// is not a scheme of Rerun", "write rerun+http://localhost:9876"),
        ("grpc://localhost:9876", "grpc:// is not a known scheme", "write spawn, serve, "),
        ("spwan://localhost:9876", "spwan:// is not a known scheme", "write spawn, serve, "),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_a_hint(text: str, problem: str, hint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_connection(text)
    assert str(raised.value) == f"rerun: {text!r} is not a connection: {problem}"
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(hint)


@given(st.text())
def test_any_text_is_parsed_or_refused_in_one_line(text: str) -> None:
    understood: object = None
    refused: ConfigError | None = None
    try:
        understood = parse_connection(text)
    except ConfigError as error:
        refused = error
    assert isinstance(understood, Spawn | Serve | File | Viewer) == (refused is None)
    assert refused is None or (refused.hint and "\n" not in str(refused))


@given(st.sampled_from(["spawn", "serve", "file"]), st.data())
def test_a_word_with_one_letter_wrong_is_never_a_host(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
    wrong = data.draw(st.sampled_from([word[:at] + word[at + 1 :], word[:at] + letter + word[at:]]))
    for text in (wrong, f"{wrong}:9876"):
        if wrong != word:
            with pytest.raises(ConfigError):
                parse_connection(text)


@pytest.mark.parametrize(
    ("texts", "second"),
    [
        (["spawn", "spawn"], "'spawn' names a place that was named before"),
        (["serve:1", "serve", "serve:1"], "'serve:1' names a place that was named before"),
        (
            ["file:a.rrd", "file:./b/../a.rrd"],
            "'file:./b/../a.rrd' names a place that was named before, as 'file:a.rrd' does",
        ),
        (["h:1", "rerun+http://h:1"], "'rerun+http://h:1' names a place that was named before, as 'h:1' does"),
    ],
)
def test_a_place_is_named_once(texts: list[str], second: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_connections(texts)
    assert str(raised.value) == f"rerun: {second}"


def test_several_places_keep_their_order() -> None:
    assert parse_connections(["serve", "file:/tmp/a.rrd", "h:1"]) == (Serve(), File(Path("/tmp/a.rrd")), Viewer("h", 1))


def test_a_pipe_or_device_is_refused_because_rerun_would_wait_for_its_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(ConfigError, match=f"file:{path} is a pipe or a device"):
            check_files([File(path)])


def test_an_impossible_file_name_is_refused(tmp_path: Path) -> None:
    (named,) = parse_connections([f"file:{tmp_path}/{'x' * 300}"])
    with pytest.raises(ConfigError, match="File name too long"):
        check_files([named])


def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.rrd").write_bytes(b"")
    check_files([File(tmp_path / "there.rrd"), Serve(), File(tmp_path / "new.rrd")])

    with pytest.raises(ConfigError) as raised:
        check_files([File(tmp_path)])
    assert str(raised.value) == f"rerun: file:{tmp_path} is a folder"
    assert raised.value.hint == f"name a file in it: file:{tmp_path}/proof.rrd"

    with pytest.raises(ConfigError, match="there is no folder"):
        check_files([File(tmp_path / "none" / "proof.rrd")])

    def refused(path: Path, mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", refused)  # tests may run as root, who may write everywhere
    with pytest.raises(ConfigError, match="may not be written"):
        check_files([File(tmp_path / "new.rrd")])


def test_later_proofs_have_numbers() -> None:
    file = File(Path("out/proof.v1.rrd"))
    assert [str(file.numbered(number)) for number in (1, 2, 10)] == [
        "out/proof.v1.rrd",
        "out/proof.v1-2.rrd",
        "out/proof.v1-10.rrd",
    ]


def test_it_works_without_the_sdk() -> None:
    code = (
        "import json, sys\n"
        "sys.modules['rerun'] = sys.modules['rerun_bindings'] = None\n"
        "from proofstream_rerun.connections import parse_connection\n"
        "print(json.dumps([parse_connection('h:1').url, sorted({'numpy', 'pyarrow', 'pydantic'} & set(sys.modules))]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == ["rerun+http://h:1/proxy", []]
