"""What small campaigns on real programs are made of."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import yaml

FSTUNE = Path(sys.executable).with_name("fstune")


def small_workload() -> dict[str, object]:
    """The usual workload with so little in it that a run takes a second."""
    document = yaml.safe_load((files("workloads") / "mixed-use.yaml").read_text())
    document["filesets"]["warm-up"].update(files=4, directories=1)
    document["filesets"]["small"].update(files=60, directories=6)
    document["filesets"]["large"]["size"]["bytes"] = 4 << 20
    for stage in document["stages"]:
        for phase in stage["phases"]:
            if "passes" in phase:
                phase["passes"] = 2
    assert isinstance(document, dict)
    return document


def careless_space() -> dict[str, object]:
    """A search space that knows neither what stops the server nor what the kernel clamps."""
    text = (files("search_spaces") / "openafs-fileserver-1.8.yaml").read_text()
    document = yaml.safe_load(text)
    parameters = document["parameters"]
    parameters["vlru_interval"].pop("special")
    parameters["vlru_interval"]["hard"] = {"low": 0, "outside": "refuses"}
    parameters["udp_buffer"].pop("at_most")
    parameters["udp_buffer"]["range"] = [65536, 1 << 28]
    assert isinstance(document, dict)
    return document
