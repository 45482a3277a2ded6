"""Trained networks from packages: the entries in matrix.toml, the files in the cache, the digests, and the page."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from matrix.data import MatrixError
from matrix.real import fetch, page
from matrix.real.catalog import Network, Package, load_networks
from matrix.suites.wheels import FetchError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(name="wheel")
def _wheel(tmp_path: Path) -> Path:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny/a.onnx", b"first")
        archive.writestr("tiny/b.onnx", b"second")
        archive.writestr("tiny/code.py", b"raise SystemExit")
    return path


class Registry:
    """A fake package index that copies a file, and counts the downloads."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel
        self.downloads = 0

    def __call__(self, package: Package, folder: Path) -> Path:
        self.downloads += 1
        copy = folder / self.wheel.name
        copy.write_bytes(self.wheel.read_bytes())
        return copy


def of(wheel: Path) -> Package:
    return Package("tiny", "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest())


def test_the_table_lists_exactly_the_files() -> None:
    networks = load_networks()
    assert len({network.name for network in networks}) == len(networks) >= 15
    assert {"basic-pitch", "silero-vad", "magika", "openwakeword", "rapidocr-onnxruntime", "piper-tts", "nudenet"} <= {
        network.package.name for network in networks
    }
    assert all(network.onnx.endswith(".onnx") for network in networks)
    assert {network.package.name for network in networks if network.tflite} == {"basic-pitch", "openwakeword"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[real.packages]\na = { version = "1", sha256 = "00" }\n[real.networks.x]\npackage = "a"\nonnx = "o"',
            "64 hex",
        ),
        ('[real.packages]\n[real.networks.x]\npackage = "a"\nonnx = "o"', "no package a"),
        ('[real.packages]\na = { version = "1", sha256 = "%064d" }\n[real.networks]' % 0, "no network is from it"),
        ('[real.packages]\na = { version = "1" }\n[real.networks]', "sha256"),
        ('[real.packages]\na = { version = "1", sha256 = "%064d" }\n[real.networks.x]\npackage = "a"' % 0, "onnx"),
    ],
)
def test_a_wrong_table_is_reported(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "matrix.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MatrixError, match=message):
        load_networks(path)


def test_only_named_files_are_cached_and_once(wheel: Path, tmp_path: Path) -> None:
    registry = Registry(wheel)
    for _ in range(2):
        paths = fetch.fetch_files(of(wheel), ["tiny/a.onnx"], registry)
        assert paths["tiny/a.onnx"].read_bytes() == b"first"
    assert registry.downloads == 1
    kept = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert kept == ["a.onnx"]
    fetch.fetch_files(of(wheel), ["tiny/a.onnx", "tiny/b.onnx"], registry)
    assert registry.downloads == 2


def test_a_file_with_another_digest_is_refused(wheel: Path, tmp_path: Path) -> None:
    package = of(wheel)
    wheel.write_bytes(wheel.read_bytes() + b"more")
    with pytest.raises(FetchError, match=f"matrix.toml has {package.sha256}"):
        fetch.fetch_files(package, ["tiny/a.onnx"], Registry(wheel))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_file_that_the_package_does_not_have_is_named(wheel: Path) -> None:
    with pytest.raises(FetchError, match=r"tiny 1\.0: .*no item named 'tiny/c.onnx'"):
        fetch.fetch_files(of(wheel), ["tiny/c.onnx"], Registry(wheel))


def test_a_file_that_is_no_wheel_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    path.write_bytes(b"<html>sign in first</html>")
    with pytest.raises(FetchError, match="not a zip file"):
        fetch.fetch_files(of(path), ["tiny/a.onnx"], Registry(path))


def test_an_unreachable_registry_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("PIP_INDEX_URL", "http://127.0.0.1:9/"),
        ("PIP_RETRIES", "0"),
        ("PIP_CONFIG_FILE", "/dev/null"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(FetchError, match=r"tiny 1\.0 could not be downloaded: .*tiny==1\.0"):
        fetch.download(Package("tiny", "1.0", "0" * 64), tmp_path)


def test_the_page_has_a_row_for_each_network() -> None:
    known = [Network(name, Package("tiny", "1.0", "0" * 64), "o") for name in ("a", "b", "c", "d")]
    about = {"bytes": 2_000_000, "operators": 7, "error": 1e-5, "ok": True}
    results = {
        "a": {
            "seconds": 0.5,
            "onnx_bytes": 1_000_000,
            "ours": about,
            "theirs": {**about, "operators": 9, "error": 0.5, "ok": False},
            "milliseconds": {"ours": 1.0, "theirs": 2.0, "onnxruntime": 3.0},
        },
        "b": {"failed": "ConversionError: a | b"},
        "c": {
            "seconds": 0.5,
            "onnx_bytes": 1_000_000,
            "ours": {**about, "error": None},
            "milliseconds": {"ours": 1.0, "onnxruntime": 3.0},
        },
    }
    head, _, a, b, c, d = page.render_table(known, results)
    assert len({row.count("|") for row in (head, a, b, c, d)}) == 1
    assert "| 7 | 9 | 1.0e-05 | 5.0e-01, beyond the tolerance | 1 | 2 | 3 |" in a
    assert "fails: ConversionError: a / b" in b
    assert "| equal |" in c
    assert "not measured" in d
