"""Sessions that are opened on a thread for an event loop, and sessions that are opened again and again."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import proofstream
from proofstream import LayerKind, Log, LogLevel, Session, current_session, hookimpl
from proofstream.session import NoSession
from proofstream.testing import RecordingPlugin

CELL = """
session = proofstream.open_session(plugins=[RecordingPlugin(), "record"], config={"record": {"path": f"{name}.jsonl"}})
with session.proof(num_layers=1) as proof, proof.layer(0, kind=proofstream.LayerKind.Add):
    pass
"""


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return condition()


class TestAgain:
    """What a notebook does: the same cell runs again, with the same variable or without one."""

    def test_a_session_whose_variable_got_another_one_ends_and_loses_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.chdir(tmp_path)
        before = threading.active_count()
        names: dict[str, Any] = {"proofstream": proofstream, "RecordingPlugin": RecordingPlugin}
        threads: list[int] = []
        for number in range(5):
            names["name"] = number
            exec(CELL, names)
            assert eventually(lambda: threading.active_count() == before + 4)
            threads.append(threading.active_count())
        assert current_session() is names["session"]
        assert names["session"].close().ok
        assert threading.active_count() == before
        for number in range(5):
            text = (tmp_path / f"{number}.jsonl").read_text("utf-8")
            assert text.count("ProofComplete") == text.count("SessionClosed") == 1
        place = "the session that was opened at <string>:2 is closed: nothing refers to it any more"
        assert [place in message for message in caplog.messages].count(True) == 4

    def test_a_session_that_is_held_goes_on_beside_later_ones(self) -> None:
        plugins = [RecordingPlugin(f"p{number}") for number in range(4)]
        sessions = [proofstream.open_session(plugins=[plugin]) for plugin in plugins]
        gc.collect()
        for number, session in enumerate(sessions):
            session.emit(Log(level=LogLevel.Info, message=f"{number}"))
            assert session.flush(10)
        assert ["Log" in plugin.kinds for plugin in plugins] == [True] * 4
        assert all(session.close().ok for session in sessions)

    def test_a_session_that_was_never_held_is_the_processs(self) -> None:
        plugin = RecordingPlugin()
        proofstream.open_session(plugins=[plugin])
        gc.collect()
        with proofstream.open_session(plugins=[RecordingPlugin("inner")]) as inner:
            assert current_session() is inner
        session = current_session()
        session.emit(Log(level=LogLevel.Info, message="x"))
        assert session.flush(10)
        assert "Log" in plugin.kinds
        assert session.close().ok
        assert isinstance(current_session(), NoSession)

    def test_a_cell_that_never_held_its_session_gets_another_in_its_place(self) -> None:
        before = threading.active_count()
        plugins = [RecordingPlugin() for _ in range(3)]
        for plugin in plugins:
            exec("proofstream.open_session(plugins=[plugin])\npass", {"proofstream": proofstream, "plugin": plugin})
            assert eventually(lambda: threading.active_count() == before + 3)
        current_session().close()
        assert [plugin.unconfigured for plugin in plugins] == [True] * 3

    def test_a_loop_that_holds_none_of_its_sessions_means_all_of_them(self) -> None:
        plugins = [RecordingPlugin(f"p{number}") for number in range(3)]
        for plugin in plugins:
            proofstream.open_session(plugins=[plugin])
        gc.collect()
        for plugin in reversed(plugins):
            assert not plugin.unconfigured
            current_session().close()
            assert plugin.unconfigured

    def test_a_function_that_runs_again_ends_the_session_that_it_held(self) -> None:
        before = threading.active_count()
        plugins = [RecordingPlugin(f"p{number}") for number in range(3)]

        def prove(plugin: RecordingPlugin) -> None:
            session = proofstream.open_session(plugins=[plugin])
            with session.proof(num_layers=0):
                pass

        for plugin in plugins:
            prove(plugin)
            assert eventually(lambda: threading.active_count() == before + 3)
        assert [plugin.unconfigured for plugin in plugins] == [True, True, False]
        current_session().close()
        assert ["ProofComplete" in plugin.kinds for plugin in plugins] == [True] * 3

    def test_a_quick_loop_piles_up_no_threads(self) -> None:
        before = threading.active_count()

        class Slow(RecordingPlugin):
            @hookimpl
            def proofstream_unconfigure(self) -> None:
                time.sleep(0.1)

        threads: list[int] = []
        held: list[Session] = []
        for _ in range(8):
            held[:] = [proofstream.open_session(plugins=[Slow()])]
            threads.append(threading.active_count())
        assert max(threads) <= before + 3 * 3
        assert current_session().close().ok

    def test_a_session_of_a_context_that_ended_is_closed(self) -> None:
        plugin = RecordingPlugin()
        context = contextvars.Context()
        context.run(proofstream.open_session, plugins=[plugin], scope="context")
        assert not isinstance(context.run(current_session), NoSession)
        del context
        assert eventually(lambda: plugin.unconfigured)

    def test_a_proof_that_is_open_holds_its_session(self) -> None:
        plugin = RecordingPlugin()

        def begin() -> Any:
            proof = proofstream.open_session(plugins=[plugin]).proof(num_layers=1)
            return proof, proof.__enter__()

        block, proof = begin()
        with proofstream.open_session(plugins=[RecordingPlugin("later")]):
            gc.collect()
            with proof.layer(0, kind=LayerKind.Add):
                pass
            block.__exit__(None, None, None)
            del block, proof
            assert eventually(lambda: plugin.unconfigured)
        assert "ProofComplete" in plugin.kinds


class Slow(RecordingPlugin):
    """Takes its time to close, as one does that waits for a receiver."""

    @hookimpl
    def proofstream_unconfigure(self) -> None:
        """Wait a little."""
        time.sleep(0.5)


class Heartbeat:
    """Counts the turns of a loop, and notes the number at certain points."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0.002)


class TestEventLoop:
    def test_the_loop_goes_on_while_a_session_opens_and_closes(self) -> None:
        async def main() -> tuple[int, int]:
            heart = Heartbeat()
            beating = asyncio.create_task(heart.run())
            await asyncio.sleep(0.01)
            start = heart.count
            async with proofstream.open_session_async(plugins=[Slow()]) as session:
                opened = heart.count - start
                assert current_session() is session
                start = heart.count
            beating.cancel()
            return opened, heart.count - start

        opened, closed = asyncio.run(main())
        assert opened >= 1  # importing holds the interpreter for some milliseconds at a time, and may be done already
        assert closed >= 20

    def test_what_blocks_the_loop_shows_in_that_count(self) -> None:
        async def main() -> int:
            heart = Heartbeat()
            beating = asyncio.create_task(heart.run())
            with proofstream.open_session(plugins=[Slow()]):
                await asyncio.sleep(0.01)
                start = heart.count
            await asyncio.sleep(0)
            beating.cancel()
            return heart.count - start

        assert asyncio.run(main()) < 5

    def test_it_is_current_in_the_task_that_waited_and_in_those_that_it_starts(self) -> None:
        async def main() -> None:
            async def alone() -> bool:
                return isinstance(current_session(), NoSession)

            before = asyncio.create_task(alone())
            async with proofstream.open_session_async(plugins=[RecordingPlugin()], scope="context") as session:

                async def inside() -> Session:
                    return current_session()

                assert await asyncio.create_task(inside()) is session
                assert await before
            assert await alone()

        asyncio.run(main())

    def test_it_can_be_awaited(self) -> None:
        plugin = RecordingPlugin()

        async def main() -> None:
            session = await proofstream.open_session_async(plugins=[plugin], source="mine")
            assert current_session() is session
            assert session.source == "mine"
            assert (await asyncio.to_thread(session.close)).ok

        asyncio.run(main())
        assert plugin.unconfigured

    def test_plugins_capture_in_the_context_of_the_task(self) -> None:
        trace = contextvars.ContextVar("trace", default="none")

        class Capturing(RecordingPlugin):
            @hookimpl
            def proofstream_capture(self) -> object:
                return trace.get()

        plugin = Capturing()

        async def main() -> None:
            trace.set("of the task")
            async with proofstream.open_session_async(plugins=[plugin]):
                pass

        asyncio.run(main())
        (opened,) = [envelope for envelope in plugin.envelopes if envelope.kind == "SessionOpened"]
        assert [*opened.captured.values()] == ["of the task"]

    def test_its_errors_are_those_of_open_session(self) -> None:
        async def main() -> None:
            async with proofstream.open_session_async(plugins=["no-such-plugin"]):
                pass

        with pytest.raises(proofstream.PluginError, match="no-such-plugin"):
            asyncio.run(main())

    def test_an_exception_inside_is_told_and_propagates(self) -> None:
        plugin = RecordingPlugin()

        async def main() -> None:
            async with proofstream.open_session_async(plugins=[plugin]):
                raise KeyError("w3")

        with pytest.raises(KeyError, match="w3"):
            asyncio.run(main())
        (closed,) = [event for event in plugin.events if isinstance(event, proofstream.SessionClosed)]
        assert (closed.outcome, closed.reason) == ("interrupted", "KeyError: 'w3'")

    def test_a_task_that_is_cancelled_while_it_waits_leaves_no_session_open(self) -> None:
        plugin = RecordingPlugin()

        async def main() -> None:
            async def wait() -> None:
                await proofstream.open_session_async(plugins=[plugin])

            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            assert await asyncio.to_thread(eventually, lambda: plugin.unconfigured)

        asyncio.run(main())
        assert isinstance(current_session(), NoSession)
