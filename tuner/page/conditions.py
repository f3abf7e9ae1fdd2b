"""The conditions of a campaign's measurements, for its report: original state of hosts, noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tuner.errors import OtherComponentsError
from tuner.model import Event
from tuner.page.document import Noise
from tuner.plan.rules import Rules
from tuner.report.noise import noise_document
from tuner.results.noise import campaign_noise
from tuner.store import Store


def recorded(ready: Sequence[Event], key: str) -> Mapping[str, None]:
    """Return the distinct texts that ``testbed-ready`` events have under a key, in order."""
    return dict.fromkeys(str(text) for event in ready if (text := event.data.get(key)))


def hosts_found(looks: Iterable[str]) -> Mapping[str, str]:
    """Return each host's recorded kernel, disks and sysctls, joined where records differ."""
    hosts: dict[str, dict[str, None]] = {}
    for look in looks:
        for item in look.split("; "):
            host, _, state = item.partition(" ")
            hosts.setdefault(host, {})[state] = None
    return {host: "; ".join(states) for host, states in hosts.items()}


def noise(store: Store, campaign: str, rules: Rules | None) -> Noise | None:
    """Return how much each noise-reduction measure helped.

    None if too little was repeated to tell, or if the workload's file has changed, so that its
    components no longer match.
    """
    try:
        report = None if rules is None else campaign_noise(store, campaign, rules)
    except OtherComponentsError:
        return None
    if report is None or rules is None:
        return None
    return Noise.model_validate(noise_document(report, rules.components))
