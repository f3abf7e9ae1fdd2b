"""What commands import at start-up, which costs users and scripts time on every call."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer

from tests.unit.campaign.campaigns import spec
from tests.unit.cli.conftest import Fstune
from tuner.cli.app import app
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

pytestmark = pytest.mark.slow

#: Needed only by commands that run campaigns, serve, or use PostgreSQL or a remote server.
HEAVY = {
    "alembic",
    "fastapi",
    "httpx2",
    "optuna",
    "paramiko",
    "procrastinate",
    "psycopg",
    "scipy",
    "structlog",
    "uvicorn",
}

#: Runs the command and prints the modules that it has imported to standard error.
PROBE = """
import atexit, sys
from tuner.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""


@pytest.mark.parametrize(
    ("command", "besides"),
    [
        ("--version", {"numpy", "rich", "sqlalchemy", "yaml"}),
        ("--help", {"numpy", "sqlalchemy", "yaml"}),
        ("space list", {"numpy", "sqlalchemy"}),
        ("workload list", {"numpy", "sqlalchemy"}),
        ("status", {"numpy", "tuner.services"}),
        ("list", {"numpy", "tuner.services"}),
    ],
)
def test_commands_import_only_what_they_use(
    environment: dict[str, str], command: str, besides: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *command.split()],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules = set(done.stderr.split())
    assert "sqlalchemy.dialects.postgresql" not in modules
    assert "typer" in modules
    assert modules & (HEAVY | besides) == set()


def list_campaigns(
    script: str, environment: dict[str, str], *, check: bool
) -> subprocess.CompletedProcess[str]:
    """Run ``fstune list`` from a script that calls its entry point."""
    return subprocess.run(
        [sys.executable, "-c", script, "list"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=check,
    )


def test_linear_algebra_has_one_thread(environment: dict[str, str]) -> None:
    script = """
import atexit
from tuner.cli import main
def tell():
    import numpy
    from threadpoolctl import threadpool_info
    print(*(pool["num_threads"] for pool in threadpool_info()))
atexit.register(tell)
main()
"""
    del environment["OPENBLAS_NUM_THREADS"]  # as tests have it
    done = list_campaigns(script, environment, check=True)
    assert set(done.stdout.splitlines()[-1].split()) == {"1"}


def test_garbage_is_collected_again_after_the_imports_but_not_looked_for_among_modules(
    environment: dict[str, str], state: Path
) -> None:
    Store.open(state).close()
    script = """
import gc, sys
def tell(event, arguments):
    if event == "import" and arguments[0] == "tuner.cli.options":
        print("import", gc.isenabled(), gc.get_freeze_count() > 0)
    elif event == "sqlite3.connect":
        print("work", gc.isenabled(), gc.get_freeze_count() > 0)
sys.addaudithook(tell)
from tuner.cli import main
main()
"""
    done = list_campaigns(script, environment, check=True)
    lines = done.stdout.splitlines()
    assert {"import False False", "work True True"} <= set(lines)
    assert {"import True True", "work False False"} & set(lines) == set()


def test_plugins_of_pydantic_are_not_looked_for(environment: dict[str, str], state: Path) -> None:
    Store.open(state).close()
    script = """
import sys
def tell(event, arguments):
    if event == "open" and str(arguments[0]).endswith("entry_points.txt"):
        print(arguments[0])
sys.addaudithook(tell)
from tuner.cli import main
main()
"""
    done = list_campaigns(script, environment, check=True)
    assert done.stdout == "No campaigns yet.\n"


def test_ctrl_c_during_imports_prints_no_traceback(environment: dict[str, str]) -> None:
    script = """
import os, signal, sys
class Struck:
    def find_spec(name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Struck)
from tuner.cli import main
main()
"""
    done = list_campaigns(script, environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_commands_are_listed_with_the_first_words_of_their_own_help() -> None:
    top = typer.main.get_command(app)
    for name, command in top.commands.items():  # type: ignore[attr-defined]
        first = command.help.split("\n\n")[0]
        listed = top.get_command(None, name)  # type: ignore[attr-defined]
        assert (listed.name, listed.help) == (command.name, " ".join(first.split()))


@pytest.mark.parametrize("failure", ["access", "command-failed"])
def test_watching_ends_with_the_error_of_the_run_though_it_imports_no_hosts(
    fstune_process: Fstune, state: Path, failure: str
) -> None:
    now = datetime.now(UTC)
    with Store.open(state) as store:
        campaign = store.create_campaign("small", spec().to_json(), 1, now).id
        store.move_campaign(
            campaign, CampaignState.RUNNING, "", NewEvent(now, "campaign-started", "")
        )
        failed = NewEvent(now, "campaign-failed", "fs1: it failed", {"failure": failure})
        store.move_campaign(campaign, CampaignState.FAILED, "fs1: it failed", failed)
    done = fstune_process("watch")
    assert done.returncode == 6, done.stderr
    assert done.stderr.endswith("fstune: fs1: it failed\n")
