"""``fstune compare``: input, references, options and output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from tests.unit.judge.published import results
from tests.unit.report.samples import screen_of
from tuner.cli.compare import compare_command, read_numbers
from tuner.errors import NotFoundError, SpecError
from tuner.report.compare import Sample, compare, compare_page


def load_trial(campaign: str, trial: int, state_dir: Path | None, database: str | None) -> Sample:
    """Load a trial of a fictitious campaign; each is 5% faster than the one before it."""
    if campaign != "7f3a":
        raise NotFoundError(f"no campaign {campaign}")
    rng = np.random.default_rng(1)
    base = np.exp(rng.normal(3.0, 0.3, 12))
    noise = np.random.default_rng(trial).normal(0.0, 0.01, 12)
    first = 0 if trial == 0 else 1
    blocks = tuple((campaign, number) for number in range(1, 13))
    values = tuple((base * np.exp(noise - 0.05 * trial)).tolist())
    return Sample(f"{campaign}:{trial}", values[first:], blocks[first:])


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run the command and return its result; its exceptions are propagated."""
    app = typer.Typer()
    app.command()(compare_command(load_trial))
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def output(*arguments: str, stdin: str | bytes | None = None) -> str:
    return run(*arguments, stdin=stdin).stdout


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for result in results():
        for arm in (result.reference, result.other):
            if arm.values is not None:
                text = "\n".join(f"{v:g}" for v in arm.values)
                (tmp_path / arm.label.replace("/", "-")).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_person_reads_effect_interval_and_tests(folder: Path) -> None:
    text = one_line(output("modesty.lenny.times", "modesty.freebsd.times", "--no-plot"))
    assert (
        "modesty.freebsd.times is 28.1% lower than modesty.lenny.times "
        "(95% interval 20.5 to 35.0% lower)" in text
    )
    assert "Welch's t test of the logarithms: p = 1.9e-05; permutation test: p = 0.0012" in text


def test_no_difference_is_a_statement_with_bounds(folder: Path) -> None:
    text = one_line(output("ni.squeeze.times", "ni.squeeze+afsonzfs.times", "--no-plot"))
    assert (
        "ni.squeeze+afsonzfs.times: no difference from ni.squeeze.times shown; estimate 0.1% "
        "higher (95% interval 1.6% lower to 1.8% higher)" in text
    )


def test_holm_over_all_comparisons(folder: Path) -> None:
    names = [f"ni.squeeze+afsonzfs{option}.times" for option in ("", "+-L", "+-jumbo")]
    plain, corrected = one_line(output(*names)), one_line(output(*names, "--holm"))
    assert "jumbo.times is 1.9% lower" in plain
    assert "jumbo.times: no difference from ni.squeeze+afsonzfs.times shown" in corrected
    assert "Holm for 2 comparisons: p = 0.07" in corrected


def test_plot_and_no_plot(folder: Path) -> None:
    names = ("modesty.lenny.times", "modesty.freebsd.times")
    assert "●" in output(*names)
    assert "●" in output(*names, "--plot")
    assert "●" not in output(*names, "--no-plot")


def test_confidence(folder: Path) -> None:
    text = output("modesty.lenny.times", "modesty.freebsd.times", "-c", "99.9", "--no-plot")
    assert "(99.9% interval 1" in one_line(text)


def test_values_not_above_zero_are_compared_as_they_are(folder: Path) -> None:
    (folder / "a").write_text("-1\n0\n1\n2\n", encoding="utf-8")
    (folder / "b").write_text("9\n10\n11\n12\n", encoding="utf-8")
    text = one_line(output("a", "b", "--no-plot"))
    assert "b is 10 higher than a (95% interval 7.766 to 12.23 higher)" in text
    assert "Welch's t test: p =" in text


def test_stored_trials_are_paired_by_block() -> None:
    text = one_line(output("7f3a:0", "7f3a:1", "--no-plot"))
    assert "7f3a:1 is 4.7% lower than 7f3a:0 (95% interval 3.3 to 6.0% lower)" in text
    assert "Paired by 11 blocks, valid under repeated looks" in text
    document = json.loads(output("7f3a:0", "7f3a:1", "--json"))["comparisons"][0]
    assert (document["paired"], document["n"], document["direction"]) == (True, 11, "lower")
    assert document["lower_percent"] < document["percent"] < document["upper_percent"] < 0.0


def test_a_stored_trial_against_a_file_is_not_paired(folder: Path) -> None:
    document = json.loads(output("modesty.lenny.times", "7f3a:1", "--json"))["comparisons"][0]
    assert not document["paired"]


def test_a_file_whose_name_looks_like_a_trial_is_a_file(folder: Path) -> None:
    (folder / "7f3a:1").write_text("1\n2\n3\n", encoding="utf-8")
    assert json.loads(output("7f3a:0", "7f3a:1", "--json"))["samples"][1]["n"] == 3
    with pytest.raises(NotFoundError, match="no campaign other"):
        run("7f3a:0", "other:1")


def test_standard_input(folder: Path) -> None:
    text = output("modesty.lenny.times", "-", "--no-plot", stdin="29\n32\n32\n34\n35\n36\n39\n")
    assert "<stdin> is 28.1% lower than modesty.lenny.times" in one_line(text)


def test_document(folder: Path) -> None:
    names = ("modesty.lenny.times", "modesty.freebsd.times")
    document = json.loads(output(*names, "--json"))
    assert document["schema"] == "fstune-compare/1"
    assert (document["confidence"], document["corrected"]) == (95.0, False)
    assert document["samples"][0] == {
        "label": "modesty.lenny.times",
        "n": 6,
        "mean": 47.0,
        "median": 45.5,
        "sd": pytest.approx(3.2249031),
        "minimum": 44.0,
        "maximum": 52.0,
        "geometric_mean": pytest.approx(46.91, abs=0.01),
    }
    (comparison,) = document["comparisons"]
    assert comparison["percent"] == pytest.approx(-28.107, abs=0.01)
    assert comparison["claim_p_value"] == pytest.approx(2 / 1716)
    assert comparison["ministat"] is None
    classic = json.loads(output(*names, "--json", "--ministat", "--holm"))
    figures = classic["comparisons"][0]["ministat"]
    assert figures["proven"]
    assert figures["difference"] == pytest.approx(-13.142857)
    assert figures["p_value"] == pytest.approx(1.522e-5, rel=1e-3)


def test_numbers_without_bounds_are_null_in_documents(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).write_text("5\n5\n5\n", encoding="utf-8")
    (comparison,) = json.loads(output("a", "b", "--json"))["comparisons"]
    assert (comparison["percent"], comparison["lower_percent"]) == (0.0, None)
    assert "interval unbounded" in output("a", "b", "--no-plot")


@pytest.mark.parametrize("width", [30, 40, 60, 80])
@pytest.mark.parametrize("terminal", [True, False])
def test_numbers_are_not_broken_across_lines(width: int, terminal: bool) -> None:
    samples = [
        Sample("a-long-name-of-a-sample", (1234567.0, 1300000.0, 1400001.0)),
        Sample("b", (0.99898, 1.0123, 1.0345)),
    ]
    page = compare_page(compare(samples, confidence=95.0, corrected=False), plot=False)
    words = screen_of(page, width, terminal=terminal).text.split()
    for number in ("1.3115e+06", "1.2346e+06", "83317", "0.99898", "1.0153", "median"):
        assert number in words


def test_values_of_trials_have_a_unit() -> None:
    values, unit = (1.0, 1.1, 1.2), "values of a trial: seconds per block"

    def text(blocks: tuple[tuple[str, int], ...] | None) -> str:
        samples = [Sample("a:0", values, blocks), Sample("b", values)]
        page = compare_page(compare(samples, confidence=95.0, corrected=False), plot=False)
        return screen_of(page, 80).text

    assert unit in text((("a", 1), ("a", 2), ("a", 3)))
    assert unit not in text(None)


def test_classic_output(folder: Path) -> None:
    """The published block, without the plot, which has separate tests."""
    text = output("modesty.lenny.times", "modesty.freebsd.times", "--ministat", "--no-plot")
    assert text == (
        "x modesty.lenny.times\n"
        "+ modesty.freebsd.times\n"
        "    N           Min           Max        Median           Avg        Stddev\n"
        "x   6            44            52            46            47     3.2249031\n"
        "+   7            29            39            34     33.857143     3.2366944\n"
        "Difference at 95.0% confidence\n"
        "\t-13.1429 +/- 3.95685\n"
        "\t-27.9635% +/- 8.41883%\n"
        "\t(Student's t, pooled s = 3.23134)\n"
    )


def test_classic_output_of_every_published_block_with_values(folder: Path) -> None:
    for result in results():
        if result.reference.values is None or result.other.values is None:
            continue
        names = [arm.label.replace("/", "-") for arm in (result.reference, result.other)]
        lines = output(*names, "--ministat").splitlines()
        if result.printed is None:
            assert lines[-1] == "No difference proven at 95.0% confidence"
            continue
        d, e, percent, percent_e, pooled = result.printed
        assert lines[-4:] == [
            "Difference at 95.0% confidence",
            f"\t{d} +/- {e}",
            f"\t{percent}% +/- {percent_e}%",
            f"\t(Student's t, pooled s = {pooled})",
        ]


def test_classic_output_with_holm_and_editions(folder: Path) -> None:
    names = [f"ni.squeeze+afsonzfs{option}.times" for option in ("", "+-jumbo", "+rec-opts")]
    text = output(*names, "--ministat", "--holm", "--no-plot")
    assert text.count("Difference at 95.0% confidence") == 2
    assert "\t(Holm, 2 comparisons: p = 0.06973, not proven)" in text
    new = output(*names, "--ministat", "--edition", "new", "--no-plot")
    assert "\t-1.92308% +/- 1.73957%" in new
    assert "x   6           385           399         388.5           390     5.2915026" in new


def test_classic_width_and_bars(folder: Path) -> None:
    names = ("modesty.lenny.times", "modesty.freebsd.times")
    together, apart = (output(*names, "--ministat", *more).splitlines() for more in ((), ("-s",)))
    assert together[2] == "+" + 74 * "-" + "+"
    assert len(apart) == len(together) + 1


def test_columns_comments_and_blank_lines(folder: Path) -> None:
    text = "# header\nrun 10 x\n\n  run\t11 y # late\nrun 12.5e0 z\r\n"
    assert read_numbers(text.split("\n"), "times", 2) == (10.0, 11.0, 12.5)
    (folder / "times").write_bytes(b"\xef\xbb\xbf1 5\n2 6\n3 7\n")
    document = json.loads(output("times", "times", "-C", "2", "--json"))
    assert document["samples"][0]["mean"] == 6.0


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1\n2\nthree\n4\n", 1, r"^t, line 3: 'three' is not a number; fix it"),
        ("1\nnan\n3\ninf\n", 1, r"^t, line 2: 'nan' is not a number \(likewise line 4\)"),
        ("1 2\n1\n", 2, r"^t, line 2: no column 2;"),
        ("1_0\n1\n1\n", 1, r"^t, line 1: '1_0' is not a number"),
        ("1e308\n1\n1\n", 1, r"^t, line 1: '1e308' is not within 1e-100 to 1e\+100 in size"),
        ("1\n1e-200\n0\n", 1, r"^t, line 2: '1e-200' is not within"),
        ("1,5\n1\n1\n", 1, r"^t, line 1: '1,5' is not a number"),
        ("a\n" * 9, 1, r"likewise line 2, 3, 4, 5, 6, \.\.\.\)"),
        ("1\n2\n", 1, r"^t: 2 numbers, at least 3 needed"),
        ("", 1, r"^t: 0 numbers"),
    ],
)
def test_bad_lines_are_named(text: str, column: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_numbers(text.split("\n"), "t", column)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a",), "name two samples or more"),
        (("-", "-"), "standard input can be read only once"),
        (("7f3a:0", "nowhere"), "^nowhere: No such file or directory; name a file"),
        (("7f3a:0", "."), r"^\.: Is a directory"),
        (("7f3a:0", "7f3a:1", "-c", "97", "--ministat"), "must be one of 80, 90, 95, 98, 99, 99.5"),
        (("7f3a:0", "7f3a:1", "-c", "100"), "from 50 to below 100 percent, got 100"),
        (("7f3a:0",) * 8 + ("--ministat",), "symbols for 7 samples, got 8"),
        (("7f3a:0", "-"), "^standard input, line 1: 'x' is not a number"),
    ],
)
def test_mistakes(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run(*arguments, stdin=b"x\n\xff")


def test_labels_cannot_move_the_cursor(folder: Path) -> None:
    name = "a\x1b[31m[red]"
    (folder / name).write_text("1\n2\n3\n", encoding="utf-8")
    for options in ((), ("--ministat",)):
        text = output("7f3a:0", name, *options)
        assert "\x1b" not in text
        assert "[red]" in text
