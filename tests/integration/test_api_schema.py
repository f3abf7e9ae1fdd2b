"""The whole OpenAPI document checked against a running service by schemathesis.

Its requests are made with every permission and with none. The service is required neither to accept
everything that the document allows (only it knows valid page tokens, tags and names) nor to accept
nothing else (a number may be given as text).
"""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import pytest
import uvicorn

from api.app import create_app
from api.service import Service
from api.starting import Starter
from tests.unit.api.conftest import CAMPAIGN, fstune
from tuner.applications import Application
from tuner.model import Campaign
from tuner.settings import ServiceSettings
from tuner.store import Store
from tuner.store.access import Access
from tuner.tokens import Scope

#: The seed makes the cases reproducible.
CONFIGURATION = """
seed = 1
base-url = "{url}"
headers = {{ {headers} }}
request-timeout = 60
continue-on-failure = true

[generation]
max-examples = {examples}
deterministic = true
database = "none"

[checks]
positive_data_acceptance.enabled = false
negative_data_rejection.enabled = false

[[operations]]
include-operation-id = "stream_events"
max-stream-events = 1
"""
#: The stream of a campaign that does not run has no event to end the reading.
BRIEF = "request-timeout = 0.2\n"
#: One request for each way to violate a campaign's document would be 1,600 requests for each of two
#: operations. These have random documents instead.
RANDOM = """
[[operations]]
include-operation-id = "{operation}"
phases.coverage.enabled = false
generation.max-examples = 30
"""
_STREAM = re.escape("GET /v1/campaigns/{campaign}/events/stream: ")
#: On a busy machine BRIEF may be over before the answer starts, or before a refusal is complete;
#: the third is a warning that the others would be too long to print in full.
LATE = (
    rf"{_STREAM}requests\.exceptions\.ReadTimeout",
    rf"{_STREAM}requests\.exceptions\.ConnectionError: .*Read timed out",
    rf"{_STREAM}hypothesis\.errors\.HypothesisWarn",
)
PUBLIC = {"/healthz", "/readyz"}
#: What uvicorn answers to what it cannot parse; such a request does not reach the application.
NOT_HTTP = b"Invalid HTTP request received."


class NotStarting:
    """Records the campaigns that would be run; the document does not cover the runs themselves."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.applied: list[str] = []
        self.verified: list[str] = []

    def start(self, campaign: str, *, override_pilot: bool = False) -> None:
        self.runs.append(campaign)

    def begin(self, campaign: Campaign) -> None:
        self.runs.append(campaign.id)

    def start_application(self, command: str, application: Application) -> None:
        self.applied.append(f"{command} {application.id}")

    def refuse_queue(self, command: str, reference: str) -> None:
        """Refuse nothing, as nothing is left to workers."""

    def refuse_queued(self, campaign: str) -> None:
        """Refuse nothing, as nothing is left to workers."""

    def refuse_too_many(self) -> None:
        """Refuse nothing, as nothing runs."""

    def refuse_used(self, testbeds: Collection[str]) -> None:
        """Refuse nothing, as nothing runs."""

    def start_verification(self, campaign: str, blocks: int, request: int) -> None:
        self.verified.append(campaign)


@dataclass
class Running:
    """A listening service."""

    url: str
    token: str
    starter: NotStarting


@dataclass
class Outcome:
    """The outcome of all cases."""

    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    open_to_all: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a service with a finished campaign, and a token with every permission."""
    directory = tmp_path_factory.mktemp("state")
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN)
    fstune(directory, "run", str(file))
    with Store.open(directory) as store:
        _, token = Access(store).create("all", Scope.ADMIN, datetime.now(UTC), None)
    settings = ServiceSettings(
        auth=True, allow=frozenset({"simulated"}), requests_per_s=1e6, burst=10**6
    )
    app = create_app(directory, settings)
    config = uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 100.0
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        assert time.monotonic() < deadline, "the service did not start"
        time.sleep(0.02)
    starter = NotStarting()
    service: Service = app.state.service
    app.state.service = dataclasses.replace(service, starter=cast(Starter, starter))
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Running(f"http://127.0.0.1:{port}", token, starter)
    server.should_exit = True
    thread.join(100)
    assert not thread.is_alive()


def exercise(
    running: Running, headers: str, examples: int, *random: str, brief: bool = False
) -> Outcome:
    """Make requests from the document and check every answer. ``random`` and ``brief``: see RANDOM
    and BRIEF.
    """
    # Every process that runs tests imports this module, and only one of them gets here.
    import schemathesis
    from schemathesis.core.result import Ok
    from schemathesis.engine import events, from_schema

    text = CONFIGURATION.format(url=running.url, headers=headers, examples=examples)
    text += BRIEF if brief else ""
    text += "".join(RANDOM.format(operation=operation) for operation in random)
    config = schemathesis.Config.from_str(text)
    schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json", config=config)
    every = {one.ok().label for one in schema.get_all_operations() if isinstance(one, Ok)}
    outcome = Outcome()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            message = f"{event.label}: {event.info}"
            if not (brief and any(re.match(late, message) for late in LATE)):
                outcome.wrong.append(message)
        elif isinstance(event, events.FatalError):
            raise event.exception
        elif isinstance(event, events.ScenarioFinished):
            for case, interaction in event.recorder.interactions.items():
                answer = interaction.response
                if answer is None:
                    continue
                operation = event.recorder.cases[case].value.operation
                outcome.statuses[answer.status_code] += 1
                outcome.operations.add(operation.label)
                if answer.status_code < 400:
                    outcome.open_to_all.add(operation.path)
            for case, checks in event.recorder.checks.items():
                label = event.recorder.cases[case].value.operation.label
                for check in checks:
                    if check.failure_info is not None:
                        failure = check.failure_info.failure
                        answer = event.recorder.interactions[case].response
                        body = b"" if answer is None else answer.content[:200]
                        if body == NOT_HTTP:
                            continue
                        outcome.wrong.append(
                            f"{label}: {failure.title}: {failure.message} {body!r}"
                        )
    assert outcome.operations == every
    return outcome


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_answer_is_documented(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    header = f'Authorization = "Bearer {running.token}"'
    # The document of a branch is that of a new campaign, and is checked by the same code.
    outcome = exercise(running, header, 6, "branch_campaign", brief=True)
    assert outcome.wrong == []
    assert outcome.statuses.total() >= 2000
    # Not everything is refused: campaigns are started, steered and read.
    assert {200, 202, 404, 405, 409, 412, 422} <= set(outcome.statuses)
    assert max(outcome.statuses) < 500
    assert running.starter.runs
    assert running.starter.verified
    # A client that stops reading a stream is not an error either.
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_a_token_nothing_is_disclosed(running: Running) -> None:
    before = list(running.starter.runs)
    # Without a token the contents of a document do not matter.
    outcome = exercise(running, "", 2, "create_campaign", "branch_campaign")
    assert outcome.wrong == []
    # A request that cannot be parsed is refused before authentication.
    assert set(outcome.statuses) <= {200, 400, 401, 405, 422}
    assert outcome.statuses.total() >= 700
    assert outcome.open_to_all == PUBLIC
    assert running.starter.runs == before
