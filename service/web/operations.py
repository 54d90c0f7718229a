"""For those who run the service: is it up, is it well, its numbers, its documents."""

import time
from datetime import datetime
from typing import Any

from service.intake.anchors.part import Anchors
from service.web.parts import Parts
from service.web.routing import Answer, Asked


def healthz(_parts: Parts, _asked: Asked) -> Answer:
    """200 as long as requests are served."""
    return Answer({"ok": True})


def readyz(parts: Parts, _asked: Asked) -> Answer:
    """200 once the first look ended, well or not; names of parts and ages, no addresses, no errors' text."""
    ready = not parts.tracks_repository or parts.worker.first_look_ended.is_set()
    states = {
        "database": {"state": "disk-full" if parts.database.full else "ok"},
        "repository": _repository(parts),
        "checkpoints": {"state": parts.checkpoints.state},
        "shell": {"state": parts.shell_state()},
    }
    if parts.anchors is not None:
        states["anchors"] = _anchors(parts.anchors)
    return Answer({"ready": ready, "parts": states}, 200 if ready else 503)


def metrics(parts: Parts, _asked: Asked) -> Answer:
    """Prometheus' text format."""
    return Answer(parts.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def schema(parts: Parts, _asked: Asked) -> Answer:
    """JSON Schema of TOOL.hdlp."""
    return Answer(
        parts.schema(), media_type="application/schema+json", headers={"Cache-Control": "public, max-age=300"}
    )


def openapi(parts: Parts, _asked: Asked) -> Answer:
    """The OpenAPI 3.1 document of this API."""
    return Answer(parts.openapi(), headers={"Cache-Control": "public, max-age=300"})


def _anchors(anchors: Anchors) -> dict[str, Any]:
    shape: dict[str, Any] = {"state": anchors.state}
    if anchors.last is not None:
        shape |= {"since": anchors.last.at, "age_s": _age_s(anchors.last.at)}
    return shape


def _repository(parts: Parts) -> dict[str, Any]:
    if not parts.tracks_repository:
        return {"state": "not-configured"}
    ingest = parts.ingest
    progress = ingest.progress
    running = {} if progress is None else {"phase": progress.phase, "done": progress.done, "total": progress.total}
    if not parts.worker.first_look_ended.is_set():
        return {"state": "first-look", **running}
    shape: dict[str, Any] = {"state": ingest.trouble or "ok", **running}
    if ingest.trouble_since is not None:
        shape |= {"since": ingest.trouble_since, "age_s": _age_s(ingest.trouble_since)}
    if ingest.looked_at is not None:
        shape["looked_at"] = ingest.looked_at
        shape["looked_age_s"] = _age_s(ingest.looked_at)
    return shape


def _age_s(moment: str) -> int:
    then = datetime.fromisoformat(moment).timestamp()
    return max(0, int(time.time() - then))
