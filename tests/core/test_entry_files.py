"""Entry points are found as `importlib.metadata` finds them, whatever lies on the path."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from proofstream.entry_files import entry_points, entry_points_by_metadata

GROUP = "proofstream"
ODD_FILES = [
    "",
    "[proofstream]\n",
    "[proofstream]\na = m:P\n\n# a comment\n[other]\nb = n:Q\n[proofstream]\nc = o.p:Q.R [extra]\n",
    "[ proofstream ]\na = m:P\n",
    "[[proofstream]]\na = m:P\n",
    "[proofstream]\n  a=m\n",
    "[proofstream]\r\na = m:P\r\n",
    "a = m:P\n[proofstream]\n",
    "[proofstream]\nä = m:P\n",
]


def told(points: list[EntryPoint]) -> list[object]:
    return [(p.name, p.value, p.module, p.attr, p.dist and (p.dist.name, p.dist.version)) for p in points]


def install(
    folder: Path, info: str, points: str, *, name: str = "a", version: str = "1", file: str = "METADATA"
) -> None:
    (folder / info).mkdir(parents=True)
    (folder / info / "entry_points.txt").write_text(points, "utf-8")
    (folder / info / file).write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: 9\n", "utf-8"
    )


@pytest.mark.parametrize("group", sorted(metadata.entry_points().groups))
def test_what_is_installed_here(group: str) -> None:
    assert told(entry_points(group)) == told(entry_points_by_metadata(group))


@pytest.mark.parametrize("text", ODD_FILES)
@pytest.mark.parametrize(("info", "file"), [("a-1.dist-info", "METADATA"), ("A.egg-info", "PKG-INFO")])
def test_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, info: str, file: str) -> None:
    install(tmp_path, info, text, file=file)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert told(entry_points(GROUP)) == told(entry_points_by_metadata(GROUP))


def test_the_first_distribution_of_a_name_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "late", "Some_Thing-1.dist-info", "[proofstream]\nlate = m:P\n", name="Some_Thing")
    install(tmp_path / "early", "some.thing-2.dist-info", "[proofstream]\nearly = m:P\n", name="some.thing")
    install(tmp_path / "empty", "other-2.dist-info", "", name="other")
    install(tmp_path / "late", "other-1.dist-info", "[proofstream]\nother = m:P\n", name="other")
    (tmp_path / "early" / "file.egg-info").write_text("Name: file\n")
    for folder in ("late", "empty", "early", "missing"):
        monkeypatch.setattr(sys, "path", [str(tmp_path / folder), *sys.path])
    found = entry_points(GROUP)
    assert told(found) == told(entry_points_by_metadata(GROUP))
    assert {"early"} == {point.name for point in found} & {"early", "late", "other"}


def test_a_zip_file_is_left_to_importlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("zipped-1.dist-info/entry_points.txt", "[proofstream]\nzipped = m:P\n")
        archive.writestr("zipped-1.dist-info/METADATA", "Name: zipped\nVersion: 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a.zip"), *sys.path])
    assert "zipped" in [point.name for point in entry_points(GROUP)]


def test_so_is_what_another_finder_provides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "hidden-1.dist-info", "[proofstream]\nhidden = m:P\n", name="hidden")

    class Finder(metadata.DistributionFinder):
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, context: metadata.DistributionFinder.Context | None = None) -> object:  # type: ignore[override]
            return metadata.MetadataPathFinder.find_distributions(
                metadata.DistributionFinder.Context(path=[str(tmp_path)])
            )

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert "hidden" in [point.name for point in entry_points(GROUP)]


def test_importlib_is_not_loaded_for_plain_folders() -> None:
    script = (
        f"import sys; from proofstream.entry_files import entry_points; found = entry_points({GROUP!r}); "
        "print(len(found) > 5, 'importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "False"]
