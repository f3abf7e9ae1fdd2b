"""Runs the workload on several clients: every phase starts on all at once; results are merged.

Owns what only several clients need: the gate at which all wait, stopping all when one fails, and
the assignment of files to clients. Every client has files of its own; before each stage that needs
a cold cache, every client moves on to the files of the next one, so that none reads what it wrote.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from tuner.errors import TestbedError, WorkloadError
from tuner.hosts.connector import CommandResult
from tuner.hosts.conversation import Conversation, SpeakingConnector
from tuner.hosts.parallel import on_all
from tuner.measure.driver import GRACE_S, ClientEngine, NotStarted, read_document, report_of
from tuner.measure.workload import Workload
from tuner.measure.workload_run import LEFTOVERS_S, Report, StagedRun, staged_run
from workloads import merge

_READY = "ready "

#: The phase that a client is ready to start, the result of its command, or why there is none.
Message = str | CommandResult | Exception


@dataclass(frozen=True, slots=True)
class Together:
    """The workload engine on several client hosts."""

    engines: tuple[ClientEngine, ...]
    workload: Workload

    @classmethod
    def install(
        cls, clients: Sequence[SpeakingConnector], directory: str, target: str, workload: Workload
    ) -> Together:
        """Copy engine and spec to all clients concurrently."""
        engines = on_all(
            clients, lambda client: ClientEngine.install(client, directory, target, workload)
        )
        return cls(tuple(engines), workload)

    def run(self, run_id: str, seed: int) -> AbstractContextManager[StagedRun]:
        """See ``Engine.run``; on every client. Errors name the client."""

        def measure(stage: str, cold_before: int) -> Report:
            return self._run_stage(stage, run_id, seed, cold_before)

        return staged_run(self.workload.spec.stages, measure, lambda: self._clean(run_id))

    def end_runs(self, prefix: str) -> None:
        """See ``Engine.end_runs``; on every client."""
        on_all(self.engines, lambda engine: engine.end_runs(prefix))

    def clean_leftovers(self, prefix: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
        """See ``Engine.clean_leftovers``. All clients share the files, so one of them cleans up."""
        try:
            self.end_runs(prefix)
        except TestbedError as problem:
            return (self.engines[0].not_searched(prefix, problem),)
        return self.engines[0].remove_leftovers(prefix, within_s)

    def _run_stage(self, stage: str, run_id: str, seed: int, cold_before: int) -> Report:
        """Run one stage on all clients, each shifted by ``cold_before`` from its own files."""
        commands = []
        for number, engine in enumerate(self.engines):
            part = (number + cold_before) % len(self.engines)
            own = engine.command(stage, _part_id(run_id, part), part_seed(seed, part))
            commands.append([*own, "--gate", "phase"])
        index = self.workload.spec.stage_index(stage)
        limit_s = self.workload.spec.stages[index].wall_clock_limit_s + GRACE_S
        speakers = [engine.client for engine in self.engines]
        documents = _Stage(stage, speakers, time.monotonic() + limit_s, limit_s).run(commands)
        try:
            merged: dict[str, Any] = merge(documents)
        except (ValueError, KeyError, TypeError) as problem:
            raise WorkloadError(f"stage {stage}: {problem}") from problem
        hosts = [engine.client.host for engine in self.engines]
        clients = {
            host: report_of(document, stage).components
            for host, document in zip(hosts, documents, strict=True)
        }
        return replace(report_of(merged, stage), clients=clients)

    def _clean(self, run_id: str) -> None:
        """Kill the run everywhere, then let each client remove one part. Ignore errors, as
        ``ClientEngine.clean`` does.
        """

        def remove(part: int) -> None:
            self.engines[part].remove(_part_id(run_id, part))

        with suppress(TestbedError):
            self.end_runs(run_id)
            on_all(range(len(self.engines)), remove)


class _Stage:
    """One stage on several hosts: a thread listens to each; only the caller's releases them."""

    def __init__(
        self, name: str, speakers: Sequence[SpeakingConnector], deadline: float, limit_s: float
    ) -> None:
        self._name = name
        self._speakers = speakers
        self._deadline = deadline
        self._limit_s = limit_s
        self._talks: list[Conversation] = []
        self._inbox: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()

    def run(self, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Return every host's report, in their order. Afterwards no command is left running."""
        threads: list[threading.Thread] = []
        try:
            for number, (speaker, command) in enumerate(zip(self._speakers, commands, strict=True)):
                self._talks.append(speaker.converse(command))
                thread = threading.Thread(target=self._listen, args=(number,), daemon=True)
                threads.append(thread)
                thread.start()
            return self._conduct()
        finally:
            for talk in self._talks:
                talk.kill()
            for thread in threads:
                thread.join(GRACE_S)

    def _listen(self, number: int) -> None:
        talk = self._talks[number]
        try:
            while (line := talk.listen()) is not None:
                if line.startswith(_READY):
                    self._inbox.put((number, line.removeprefix(_READY)))
            self._inbox.put((number, talk.end()))
        except Exception as problem:  # whatever it is, the waiting thread must receive it
            self._inbox.put((number, problem))

    def _conduct(self) -> list[dict[str, Any]]:
        """Release the hosts whenever all are ready, until every host has reported."""
        ready: dict[int, str] = {}
        documents: dict[int, dict[str, Any]] = {}
        while len(documents) < len(self._talks):
            number, message = self._next({*ready, *documents})
            if isinstance(message, Exception):
                raise message
            if isinstance(message, CommandResult):
                with self._naming_client(number, {*ready, *documents, number}):
                    documents[number] = read_document(message, self._name)
            else:
                ready[number] = message
            if ready and documents:
                raise WorkloadError(f"stage {self._name}: the clients are not in step")
            if len(ready) == len(self._talks):
                if len(set(ready.values())) > 1:
                    raise WorkloadError(f"stage {self._name}: the clients are not in step")
                ready.clear()
                for talk in self._talks:
                    talk.say("go")
        return [documents[number] for number in range(len(self._talks))]

    def _next(self, reported: set[int]) -> tuple[int, Message]:
        try:
            return self._inbox.get(timeout=max(0.0, self._deadline - time.monotonic()))
        except queue.Empty:
            who = self._hosts(set(range(len(self._talks))) - reported)
            raise WorkloadError(
                f"{who}: stage {self._name}: not finished within {self._limit_s:g} s"
            ) from None

    @contextmanager
    def _naming_client(self, number: int, reported: set[int]) -> Iterator[None]:
        """Add to errors the client that failed, and any that the others waited for in vain."""
        try:
            yield
        except WorkloadError as problem:
            message = f"{self._hosts({number})}: {problem}"
            late = set(range(len(self._talks))) - reported
            if late and isinstance(problem, NotStarted):
                message = f"{self._hosts(late)} was not ready in time; {message}"
            raise WorkloadError(message, problem.details) from problem

    def _hosts(self, numbers: set[int]) -> str:
        return ", ".join(self._speakers[number].host for number in sorted(numbers))


def _part_id(run_id: str, part: int) -> str:
    return f"{run_id}-{part + 1}"


def part_seed(seed: int, part: int) -> int:
    """Seed of a part: each has different files, as those of different users would be."""
    return seed if part == 0 else random.Random(f"{seed}:part:{part}").randrange(2**32)
