"""Runs a campaign over a guest that is up: ``python -m bench.wollman [encryption|server] [NAME]``.

``NAME``: of the guest (``vm``). About a quarter of an hour each; worth nothing unless nothing else
runs. Writes every time that was measured to ``encryption.csv`` or ``server.csv`` beside this file,
and prints what ``fstune show`` says.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import yaml

from tuner.campaign.named import ORIGIN
from tuner.cli.options import state_directory
from tuner.model import BASELINE, Trial
from tuner.states import BlockState
from tuner.store import Store

HERE = Path(__file__).resolve().parent
FSTUNE = Path(sys.executable).with_name("fstune")


def main(which: str, guest: str, state: Path) -> None:
    """Run one of the campaigns and write down what was measured."""
    document = yaml.safe_load((HERE / f"{which}.yaml").read_text(encoding="utf-8"))
    document["testbed"] = {"hosts": str(state.absolute() / "cells" / guest / "testbed.yaml")}
    document["workload"] = str(HERE / document["workload"])
    file = state / f"wollman-{which}.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    own = ["--state-dir", str(state)]
    subprocess.run([FSTUNE, "run", str(file), *own], check=False, timeout=7200)
    with Store.open(state) as store:
        campaign = store.campaign("last").id
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
    with (HERE / f"{which}.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("block", "arm", "component", "seconds"))
        writer.writerows(rows)
    subprocess.run([FSTUNE, "show", campaign, *own], check=False, timeout=120)


def _name(trial: Trial) -> str:
    return "as found" if trial.number == BASELINE else trial.origin.removeprefix(ORIGIN)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        given[0] if given else "encryption",
        given[1] if len(given) > 1 else "vm",
        state_directory(None),
    )
