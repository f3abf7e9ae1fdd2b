"""The classic arithmetic and output compared with Debian's ministat, on random samples."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tuner.judge.ministat import CONFIDENCES, Edition, student_t
from tuner.report.compare import Sample
from tuner.report.ministat import classic, classic_text

# The package is fetched on first use.
pytestmark = pytest.mark.timeout(400)

PAIRS = 300


def fetched(root: Path) -> Path:
    """The program from Debian's package, unpacked below build/ and not installed."""
    home = root / "build" / "test-tools" / "ministat"
    program = home / "usr" / "bin" / "ministat"
    if program.exists():
        return program
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: no Debian package of ministat to compare with")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetch-") as scratch:
        unpacked = Path(scratch) / "tree"
        subprocess.run(
            ["dpkg-deb", "--extract", str(package(Path(scratch))), str(unpacked)], check=True
        )
        unpacked.chmod(0o755)
        try:
            unpacked.rename(home)
        except OSError:
            # Another test run was faster; use its program.
            if not program.exists():
                raise
    return program


def package(scratch: Path) -> Path:
    """Download the package with the machine's package lists, or otherwise with private new ones."""
    lists = scratch / "lists"
    (lists / "partial").mkdir(parents=True)
    private = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={scratch}"]
    complaints = []
    for commands in ([["download", "ministat"]], [["update"], ["download", "ministat"]]):
        for command in commands:
            done = subprocess.run(
                ["apt-get", "-q", *(private if len(commands) > 1 else []), *command],
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
            if done.returncode != 0:
                complaints.append(f"apt-get {command[0]}: {done.stderr.strip()}")
        packages = sorted(scratch.glob("ministat_*.deb"))
        if packages:
            return packages[0]
    raise RuntimeError("; ".join(complaints) or "apt-get downloaded nothing")


@pytest.fixture(scope="module")
def ministat(root: Path) -> Path:
    return fetched(root)


def theirs(program: Path, folder: Path, *options: str) -> str:
    command = [str(program), *options, "first", "second"]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return done.stdout


def write(folder: Path, samples: tuple[Sample, Sample]) -> None:
    for sample in samples:
        text = "".join(f"{value!r}\n" for value in sample.values)
        (folder / sample.label).write_text(text, encoding="utf-8")


def random_samples(rng: np.random.Generator) -> tuple[Sample, Sample]:
    """Draw two samples of 3 to 80 values, rounded or not, from equal or different distributions."""
    level = float(np.exp(rng.uniform(-3.0, 8.0)))
    spread = level * rng.uniform(0.005, 0.3)
    shift = spread * rng.choice([0.0, 0.5, 2.0])
    digits = int(rng.choice([0, 1, 10])) - math.floor(math.log10(spread))
    first, second = (
        np.round(rng.normal(level + more, spread, int(rng.integers(3, 81))), digits)
        for more in (0.0, shift)
    )
    return Sample("first", tuple(first.tolist())), Sample("second", tuple(second.tolist()))


def assert_alike(mine: str, their: str) -> None:
    """Assert that words and plots are equal, and numbers equal except for the last digit."""
    ours, others = mine.splitlines(), their.splitlines()
    # ministat truncates stacks that are taller in the first sample than in the second.
    start = others.index(next(line for line in others if line.startswith("+-")))
    cut = len(ours) - len(others)
    assert cut >= 0
    assert all(set(line) <= set("|x ") for line in ours[start + 1 : start + 1 + cut])
    del ours[start + 1 : start + 1 + cut]
    for our, other in zip(ours, others, strict=True):
        if our == other:
            continue
        for a, b in zip(our.split(), other.split(), strict=True):
            if a != b:
                assert float(a.strip("%()")) == pytest.approx(float(b.strip("%()")), rel=1.1e-5)


def test_agrees_on_random_pairs(ministat: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(20150715)
    proven = 0
    for _ in range(PAIRS):
        samples = random_samples(rng)
        write(tmp_path, samples)
        confidence = float(rng.choice(CONFIDENCES))
        separate = bool(rng.random() < 0.5)
        options = ["-w", "74", "-c", f"{confidence:g}", *(["-s"] if separate else [])]
        their = theirs(ministat, tmp_path, *options)
        result = classic(samples, confidence=confidence, edition=Edition.OLD, corrected=False)
        mine = classic_text(result, plot=True, width=74, separate=separate)
        assert_alike(mine, their)
        proven += result.differences[0].proven
    assert 50 < proven < 250


def test_agrees_on_every_entry_of_the_t_table(ministat: Path, tmp_path: Path) -> None:
    """For samples of sd 1, the interval is t sqrt(1/n1 + 1/n2); all levels, 4 to 102 degrees."""
    for freedom in range(4, 103):
        sizes = (freedom + 2) // 2, freedom + 2 - (freedom + 2) // 2
        first, second = (np.linspace(-1.0, 1.0, n) for n in sizes)
        first, second = first / first.std(ddof=1), 100.0 + second / second.std(ddof=1)
        samples = Sample("first", tuple(first.tolist())), Sample("second", tuple(second.tolist()))
        write(tmp_path, samples)
        for level in CONFIDENCES:
            text = theirs(ministat, tmp_path, "-A", "-c", f"{level:g}")
            half = float(text.partition("+/-")[2].split()[0])
            expected = student_t(freedom, level) * np.sqrt(1 / sizes[0] + 1 / sizes[1])
            assert half == pytest.approx(expected, rel=6e-6)
