"""Under what a campaign was measured, for its report: hosts as they were found, and the noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tuner.campaign.noise import campaign_noise
from tuner.campaign.rules import Rules
from tuner.model import Event
from tuner.page.document import Noise
from tuner.report.noise import noise_document
from tuner.store import Store


def told(ready: Sequence[Event], key: str) -> Mapping[str, None]:
    """What was found of the testbeds each time that they were ready; what is alike is told once."""
    return dict.fromkeys(str(found) for event in ready if (found := event.data.get(key)))


def hosts_found(looks: Iterable[str]) -> Mapping[str, str]:
    """By host, what was found of its kernel, disks and sysctls; several looks may differ."""
    hosts: dict[str, dict[str, None]] = {}
    for look in looks:
        for item in look.split("; "):
            host, _, said = item.partition(" ")
            hosts.setdefault(host, {})[said] = None
    return {host: "; ".join(said) for host, said in hosts.items()}


def noise(store: Store, campaign: str, rules: Rules | None) -> Noise | None:
    """What each measure against noise brought; None where too little was repeated to tell, or the
    workload is another one now and its components cannot be told apart.
    """
    try:
        found = None if rules is None else campaign_noise(store, campaign, rules)
    except KeyError:
        return None
    if found is None or rules is None:
        return None
    return Noise.model_validate(noise_document(found, rules.components))
