"""Workload and search space of small campaigns on real programs."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import yaml

FSTUNE = Path(sys.executable).with_name("fstune")


def small_workload() -> dict[str, object]:
    """Return the default workload, made so small that a run takes a second."""
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
    """Return a search space that lacks one limit of the server and one of the kernel."""
    text = (files("search_spaces") / "openafs-fileserver-1.8.yaml").read_text()
    document = yaml.safe_load(text)
    parameters = document["parameters"]
    parameters["vlru_interval"].pop("special")
    parameters["vlru_interval"]["hard"] = {"low": 0, "outside": "refuses"}
    parameters["udp_buffer"].pop("at_most")
    parameters["udp_buffer"]["range"] = [65536, 1 << 28]
    assert isinstance(document, dict)
    return document
