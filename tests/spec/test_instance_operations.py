"""Tools that name what only this Forgejo's own document knows, from outside (contract/registration.md, What is checked)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.far_side import FarSide, answer_with
from tests.harness.forgejo_document import NEWEST, Forge, facts_of
from tests.harness.parts import Parts
from tests.harness.service import BitongService

PAINT = {
    "repoPaint": {
        "verb": "POST",
        "path": "/repos/{owner}/{repo}/paint",
        "parameters": [],
        "body": {"colour": {"type": "string", "required": True}},
    }
}
PAINTS: dict[str, Any] = {
    "executor": "git-forgejo",
    "method": "repoPaint",
    "params_schema": {"colour": {"type": "string", "required": True}},
}
PAINTED = '{"painted": "朱红"}'


class PaintingForge(Forge):
    """Serves its document where it has one, and paints."""

    def answer_request(self, connection: Any, request: bytes) -> None:
        serve = answer_with(PAINTED.encode()) if request.startswith(b"POST ") else self.document
        serve(connection, request)

    def describe(self, facts: dict[str, dict[str, Any]]) -> None:
        super().describe(facts)
        self.document, self.answer = self.answer, self.answer_request

    def hide(self) -> None:
        self.document = answer_with(b"404 page not found\n", "404 Not Found", "text/plain")


@pytest.fixture
def forge() -> Iterator[PaintingForge]:
    forge = PaintingForge(FarSide, facts_of(NEWEST) | PAINT)
    yield forge
    forge.side.close()


def _restarted(service: BitongService) -> BitongService:
    """The document is asked for once an hour, and on start."""
    service.stop()
    return service.start()


def _against(service: BitongService) -> list[str]:
    rejections = [item for item in service.items("/rejections") if item["current"]]
    return [problem["code"] for item in rejections for problem in item["problems"]]


def test_a_tool_that_only_this_forge_can_run_is_registered_once_its_document_was_seen(
    parts: Parts, forge: PaintingForge
) -> None:
    """G25: first the forge shows none and our own facts decide; then it does, and no commit is needed."""
    repo = parts.repo()
    repo.write_tool("paint", **PAINTS)
    repo.write_tool("read", executor="git-forgejo", method="repoGet")
    commit = repo.commit()
    repo.push()
    forge.hide()
    service = parts.service(
        repo,
        repository_id=1,
        forgejo_url=forge.url,
        forgejo_tools_token="t0ken-of-tools",
        forgejo_operations=["repoPaint", "repoGet"],
    )
    before = (set(service.tools()), _against(service))
    forge.describe(facts_of(NEWEST) | PAINT)
    _restarted(service)

    told = service.run("paint", {"colour": "朱红"})

    assert before == ({"read"}, ["unknown-operation"])
    assert _against(service) == []
    assert [(version["version"], version["commit"]) for version in service.versions("paint")] == [(1, commit)]
    assert (told["ok"], told["output"]) == (True, PAINTED)
    sent = next(request for request in forge.side.requests if request.startswith(b"POST "))
    assert json.loads(sent.partition(b"\r\n\r\n")[2]) == {"colour": "朱红"}


def test_a_tool_whose_operation_the_forge_lost_stays_and_is_refused(parts: Parts, forge: PaintingForge) -> None:
    """A warning where it is shown, a refusal at exec, never a removal."""
    repo = parts.repo()
    repo.write_tool("paint", **PAINTS)
    repo.commit()
    repo.push()
    service = parts.service(
        repo,
        repository_id=1,
        forgejo_url=forge.url,
        forgejo_tools_token="t0ken-of-tools",
        forgejo_operations=["repoPaint"],
    )
    before = service.tools()["paint"]["warnings"]
    forge.describe(facts_of(NEWEST))
    _restarted(service)

    refused = service.exec("paint", {"colour": "朱红"})

    assert before == []
    assert "executor-not-available" in {warning["code"] for warning in service.tools()["paint"]["warnings"]}
    assert not refused.json()["ok"]
    assert "repoPaint" in refused.text
    assert not any(request.startswith(b"POST ") for request in forge.side.requests)
    assert _against(service) == []
