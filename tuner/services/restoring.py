"""Restoring hosts from their journals: by hand, and after a run that was cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from tuner.errors import SpecError, TestbedError, TunerError
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.hold import Hold, has_journals
from tuner.hosts.lease import Owner
from tuner.hosts.parallel import on_all
from tuner.hosts.restore_all import restore_all
from tuner.measure.driver import end_runs


def restore(
    hosts: Sequence[SpeakingConnector], directory: str, path: str | None = None
) -> Iterator[str]:
    """Restore every host from its journals and end all holds on it, with the workloads of their
    campaigns, which may keep a client in use.

    ``hosts``: the server, then the clients; ``path``: where workloads run on clients. Yields a
    sentence for each part as soon as it is done, and then one on files that a workload may have
    left. If a host fails, the others are still restored; then the first failure is raised
    (TestbedError).
    """
    failure: TestbedError | None = None
    is_changed, names = False, set[str]()
    reachable: list[tuple[SpeakingConnector, set[str]]] = []
    for connector in hosts:
        try:
            campaigns = _campaigns(connector, directory)
            # Before anything is restored: from now on, the current holder of the host is refused;
            # commands that it has already started are waited for.
            connector.change(["rm", "--recursive", "--force", f"{directory}/lease"])
            reachable.append((connector, campaigns))
        except TestbedError as problem:
            failure = failure or problem
    for connector, campaigns in reachable:
        for campaign in campaigns:
            # None may ever have been installed there.
            with suppress(TestbedError, SpecError):
                end_runs(connector, directory, campaign)
        try:
            names |= campaigns
            messages = restore_all(connector, directory)
            is_changed = is_changed or bool(messages)
            yield from messages or [f"{connector.host}: nothing to restore"]
            connector.change(["rm", "--recursive", "--force", f"{directory}/lease.expired"])
        except TestbedError as problem:
            failure = failure or problem
    if path is not None and (names or is_changed):
        # Without the token that was destroyed, they may not even be listed.
        patterns = " and ".join(f"fstune-{name}*" for name in sorted(names)) or "fstune-*"
        yield (
            f"{hosts[-1].host}: {path}: may still have files of workloads that were cut off: look "
            f"for {patterns} there"
        )
    if failure is not None:
        raise failure


def _campaigns(connector: SpeakingConnector, directory: str) -> set[str]:
    """The campaigns that hold a host, or whose hold its watch has ended."""
    files = [f"{directory}/{name}/owner" for name in ("lease", "lease.expired")]
    marks = connector.ask(["cat", *files]).stdout.splitlines()
    return {mark.partition(" ")[0] for mark in marks}


def recover(
    hosts: Sequence[SpeakingConnector], directory: str, owner: Owner, after_s: float
) -> list[str]:
    """Restore every host that still has journals of a run that was cut off, and return a sentence
    for each part. Other hosts are only asked.

    ``hosts``: the server, then the clients. Each is held meanwhile, so that one in use by another
    campaign is left alone, and one that cannot be restored goes on trying. If a host fails, the
    others are still restored; then TestbedError is raised, with the reasons and these sentences.
    """
    problems: list[str] = []

    def recover_host(host: SpeakingConnector) -> list[str]:
        try:
            if not has_journals(host, directory):
                return []
            hold = Hold.take(host, directory, owner, after_s, end_runs)
            # They may keep a client in use. None may ever have been installed there.
            with suppress(TestbedError):
                end_runs(hold, directory, owner.campaign)
            sentences = restore_all(host, directory, hold.lease.mark)
            # Taking it from another campaign that has died restores it too.
            return sentences or [f"{host.host}: restored"]
        except TunerError as problem:
            problems.append(str(problem))
            return []

    server, *clients = hosts
    every = [recover_host(server), *on_all(clients, recover_host)]  # clients may need the server
    sentences = [sentence for each in every for sentence in each]
    if problems:
        raise TestbedError("; ".join([*problems, *sentences]))
    return sentences
