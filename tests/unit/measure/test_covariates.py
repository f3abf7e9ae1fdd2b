"""Covariates: unrelated load on the machines, from the diagnostics."""

from __future__ import annotations

import pytest

from tuner.measure.covariates import covariate_row, covariates
from tuner.model import COVARIATES

Numbers = dict[str, float | str]


def machine(prefix: str, **more: float) -> Numbers:
    defaults = {"busy_s": 10.0, "irq_s": 0.5, "softirq_s": 1.5, "iowait_s": 0.25, "steal_s": 0.5}
    return {f"{prefix}.{name}": v for name, v in {**defaults, "elapsed_s": 5.0, **more}.items()}


#: Server and client on one machine, as in a private cell: 10 - 2 - 1 - 2 - 3 = 2 s in 5 s.
ALONE: Numbers = {
    **machine("host"),
    "server.cpu_s": 1.0,
    "client1.cpu_s": 2.0,
    "client1.machine": "host",
    "engine_cpu_s": 3.0,
    "client1.cm.fetched_bytes": 7.0,
    "stored": "proven",
}

#: Two client machines, two clients on the first of them.
APART: Numbers = {
    **machine("host"),
    **machine("ws1.host", busy_s=14.0),
    **machine("ws3.host", busy_s=12.0),
    "fs1.cpu_s": 1.0,
    "ws1.cpu_s": 1.0,
    "ws2.cpu_s": 2.0,
    "ws3.cpu_s": 3.0,
    "ws1.machine": "ws1.host",
    "ws2.machine": "ws1.host",
    "ws3.machine": "ws3.host",
    "engine_cpu_s": 6.0,
}


def without(numbers: Numbers, *names: str) -> Numbers:
    return {name: value for name, value in numbers.items() if name not in names}


def test_on_one_machine() -> None:
    assert covariates(ALONE) == pytest.approx(
        {"others_server": 0.4, "stolen_server": 0.1, "iowait_server": 0.05}
    )


def test_on_machines_of_their_own() -> None:
    assert covariates(APART) == pytest.approx(
        {
            "others_server": (10.0 - 2.0 - 1.0) / 5.0,
            "stolen_server": 0.1,
            "iowait_server": 0.05,
            "others_clients": (26.0 - 4.0 - 6.0 - 6.0) / 10.0,
            "stolen_clients": 0.1,
            "iowait_clients": 0.05,
        }
    )


def test_if_a_client_shares_the_server_s_machine_all_are_one_role() -> None:
    mixed = without(APART, "ws3.machine") | {"ws3.machine": "host"}
    values = covariates(mixed)
    assert set(values) == {"others_server", "stolen_server", "iowait_server"}
    assert values["others_server"] == pytest.approx((24.0 - 4.0 - 7.0 - 6.0) / 10.0)


def test_a_client_in_the_kernel_has_no_time_of_its_own() -> None:
    values = covariates(without(APART, "ws3.cpu_s"))
    assert values["others_clients"] == pytest.approx((26.0 - 4.0 - 3.0 - 6.0) / 10.0)


@pytest.mark.parametrize(
    ("lacking", "left"),
    [
        ("host.busy_s", {"stolen_server", "iowait_server"}),
        ("host.irq_s", {"stolen_server", "iowait_server"}),
        ("host.softirq_s", {"stolen_server", "iowait_server"}),
        ("server.cpu_s", {"stolen_server", "iowait_server"}),
        ("client1.cpu_s", {"stolen_server", "iowait_server"}),
        ("engine_cpu_s", {"stolen_server", "iowait_server"}),
        ("host.steal_s", {"others_server", "iowait_server"}),
        ("host.iowait_s", {"others_server", "stolen_server"}),
        ("host.elapsed_s", set()),
        ("client1.machine", set()),
    ],
)
def test_a_missing_counter_gives_no_covariate(lacking: str, left: set[str]) -> None:
    assert set(covariates(without(ALONE, lacking))) == left


def test_zero_elapsed_time_gives_no_covariates() -> None:
    assert covariates(ALONE | {"host.elapsed_s": 0.0}) == {}


def test_a_row_is_in_the_order_of_the_names() -> None:
    row = covariate_row(ALONE)
    assert dict(zip(COVARIATES, row, strict=True)) == {
        **dict.fromkeys(COVARIATES),
        **covariates(ALONE),
    }
    assert covariate_row({"engine_cpu_s": 3.0}) == ()
