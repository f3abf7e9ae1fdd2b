"""Runs a campaign on a running guest: ``python -m bench.wollman [encryption|server] [NAME]``.

``NAME``: the name of the guest (``vm`` by default). Takes at most an hour, the campaign's budget,
and the rest of a block; the results are meaningless if anything else runs on the machine. Writes
all measured times to ``encryption.csv`` or ``server.csv`` next to this file, and prints the output
of ``fstune show``. Writes nothing if the campaign does not run to its end.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from tuner.cli.options import state_directory
from tuner.model import BASELINE, Trial
from tuner.plan.named_comparison import ORIGIN
from tuner.states import BlockState
from tuner.store import Store

HERE = Path(__file__).resolve().parent
FSTUNE = Path(sys.executable).with_name("fstune")


def main(which: str, guest: str, state: Path, *, fstune: Sequence[str], to: Path) -> None:
    """Run one of the campaigns and write its measurements to the directory ``to``.

    ``fstune``: the command line that starts fstune. Exits with its status unless the campaign runs
    to its end, otherwise with the status of ``fstune show``.
    """
    document = yaml.safe_load((HERE / f"{which}.yaml").read_text(encoding="utf-8"))
    document["testbed"] = {"hosts": str(state.absolute() / "cells" / guest / "testbed.yaml")}
    document["workload"] = str(HERE / document["workload"])
    file = state / f"wollman-{which}.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    own = ["--state-dir", str(state)]
    if status := _status([*fstune, "run", str(file), *own]):
        sys.exit(status)  # it has printed the reason
    with Store.open(state) as store:
        last = store.campaign("last")
        if last.name != document["name"]:
            sys.exit(f"the last campaign is {last.name!r}, not {document['name']!r}")
        campaign = last.id
        names = {trial.number: _name(trial) for trial in store.trials(campaign)}
        rows: list[tuple[int, str, str, str]] = []
        for block in store.blocks(campaign):
            if block.state is not BlockState.COMPLETE:
                continue
            runs = [(names[one.trial], one.components) for one in block.measurements]
            runs += [(one.name, one.components) for one in block.references]
            rows += [
                (block.number, name, component, f"{time.elapsed_s:.4f}")
                for name, components in runs
                for component, time in components.items()
            ]
    with (to / f"{which}.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("block", "arm", "component", "seconds"))
        writer.writerows(rows)
    sys.exit(_status([*fstune, "show", campaign, *own]))


def _status(command: Sequence[str]) -> int:
    """Run a command and return its exit status.

    The command is never killed, because it may be restoring hosts. Ctrl-C reaches it directly.
    """
    process = subprocess.Popen(command)
    while True:
        with suppress(KeyboardInterrupt):
            return process.wait()


def _name(trial: Trial) -> str:
    return "as found" if trial.number == BASELINE else trial.origin.removeprefix(ORIGIN)


if __name__ == "__main__":
    words = sys.argv[1:]
    main(
        words[0] if words else "encryption",
        words[1] if len(words) > 1 else "vm",
        state_directory(None),
        fstune=[str(FSTUNE)],
        to=HERE,
    )
