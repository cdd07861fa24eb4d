"""scripts/package: what an archive may hold."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from assay_tools import package

DYNAMIC = """
Dynamic Section:
  NEEDED               libz.so.1
  NEEDED               libstdc++.so.6
  NEEDED               libc.so.6
Version References:
  required from libc.so.6:
    0x06969197 0x00 08 GLIBC_2.17
    0x069691b6 0x00 05 GLIBC_2.38
"""


def test_a_library_that_is_not_carried_is_found() -> None:
    assert package.foreign_needs(DYNAMIC, {"libstdc++.so.6"}) == ["libz.so.1"]
    assert package.foreign_needs("  NEEDED    libm.so.6\n", set()) == []


def test_a_newer_c_library_than_promised_is_found() -> None:
    assert package.too_new_glibc(DYNAMIC) == ["2.38"]
    assert package.too_new_glibc("GLIBC_2.36 GLIBC_2.2.5") == []


def test_an_archive_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "assay-1"
    folder.mkdir()
    (folder / "file").write_text("text")
    archive = tmp_path / "out" / "assay-1.tar.gz"
    package.pack(folder, archive)
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["assay-1", "assay-1/file"]
        assert tar.getmember("assay-1/file").uname == "root"
    monkeypatch.setattr(package, "SIZE_MAX_MIB", 0)
    with pytest.raises(package.PackageError, match="is the limit"):
        package.pack(folder, archive)
    monkeypatch.setattr(tarfile, "open", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        package.pack(folder, tmp_path / "out" / "other.tar.gz")
    assert [p.name for p in (tmp_path / "out").iterdir()] == [archive.name]


def test_the_version_is_the_projects() -> None:
    assert package.version().count(".") == 2
