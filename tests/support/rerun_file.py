"""Reads recordings of the plugin `rerun` back with Rerun's own reader."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from rerun.chunk import RrdReader

TIMELINES = {"prover_time", "event", "wall_time"}


class Entity:
    """All rows of one entity, in the order of their events.

    Attributes:
        is_static: Whether it has static content.
        timelines: The names of its timelines.
        rows: For each row, its times by timeline (nanoseconds, or seq on `event`) and its values by component.
    """

    def __init__(self) -> None:
        self.is_static = False
        self.timelines: set[str] = set()
        self.rows: list[tuple[dict[str, int], dict[str, Any]]] = []

    def values(self, component: str) -> list[Any]:
        """Return the values of one component, row by row."""
        return [values[component] for _, values in self.rows if component in values]

    def times(self, timeline: str) -> list[int]:
        """Return the times on one timeline, row by row."""
        return [times[timeline] for times, _ in self.rows]


class File:
    """A recording in a file."""

    def __init__(self, path: Path) -> None:
        reader = RrdReader(path)
        (recording,) = reader.recordings()
        self.application_id: str = recording.application_id
        self.recording_id: str = recording.recording_id
        self.blueprints = len(reader.blueprints())
        self.entities: dict[str, Entity] = defaultdict(Entity)
        for chunk in reader.stream(store=recording):
            self._add(chunk)
        for entity in self.entities.values():
            entity.rows.sort(key=lambda row: row[0]["event"])

    def _add(self, chunk: Any) -> None:
        entity = self.entities[str(chunk.entity_path).removeprefix("/")]
        if chunk.is_static:
            entity.is_static = True
            return
        entity.timelines |= set(chunk.timeline_names)
        table = chunk.to_record_batch()
        columns = {
            name: (table.column(name).cast("int64") if name in TIMELINES else table.column(name)).to_pylist()
            for name in table.schema.names
        }
        for place in range(chunk.num_rows):
            times = {name: columns[name][place] for name in TIMELINES}
            values = {name.rpartition(":")[2]: rows[place] for name, rows in columns.items() if name not in TIMELINES}
            entity.rows.append((times, values))

    def below(self, folder: str) -> dict[str, Entity]:
        """Return the entities below a folder by the rest of their paths."""
        return {path.removeprefix(folder): e for path, e in self.entities.items() if path.startswith(folder)}

    def texts(self, log: str) -> list[str]:
        """Return the lines of a log."""
        return [line for lines in self.entities[log].values("text") for line in lines]
