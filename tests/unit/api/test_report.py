"""Reports over HTTP."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from starlette.testclient import TestClient

from tests.unit.api.conftest import Guarded
from tuner.page.document import ReportDocument
from tuner.tokens import Scope

PATH = "/v1/campaigns/last/report"


@pytest.mark.slow
def test_a_report_is_one_page_whose_policy_allows_its_own_style_alone(client: TestClient) -> None:
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert re.fullmatch(
        r'inline; filename="fstune-report-[\w-]+\.html"', answer.headers["content-disposition"]
    )
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    again = client.get(PATH, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    ("form", "media_type"), [("markdown", "text/markdown"), ("json", "application/json")]
)
def test_other_forms(client: TestClient, form: str, media_type: str) -> None:
    answer = client.get(PATH, params={"format": form})
    assert answer.headers["content-type"].startswith(media_type)
    if form == "json":
        assert ReportDocument.model_validate_json(answer.text).state == "finished"
    else:
        assert answer.text.startswith("# Recommended")


def test_an_unknown_form_is_refused(client: TestClient) -> None:
    assert client.get(PATH, params={"format": "pdf"}).status_code == 422


@pytest.mark.parametrize("path", ["/campaigns/last", "/campaigns/last/recommendation"])
def test_pages_link_to_it(client: TestClient, path: str) -> None:
    page = client.get(path, headers={"Accept": "text/html"}).text
    (link,) = re.findall(r'href="(/v1/campaigns/[^"]+/report)"', page)
    assert client.get(link).status_code == 200


def test_a_report_requires_the_read_scope(guarded: Guarded) -> None:
    assert guarded.client.get(PATH).status_code == 401
    # There is no campaign, and a visitor who may read learns that.
    assert guarded.client.get(PATH, headers=guarded.headers(Scope.READ)).status_code == 404
