"""`POST /hooks/forgejo` (contract/http-api.md, The webhook)."""

from service.errors import BitongError, Message, Unsupported
from service.web.errors import problem, status_of
from service.web.parts import Parts
from service.web.routing import PROBLEM, Answer, Asked

_CLOSE = {"Connection": "close"}


def receive(parts: Parts, asked: Asked) -> Answer:
    """Keep a signed delivery and look. 202 where it concerns the tracked branch, 204 where it is ignored; no body."""
    media_type = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Unsupported(
            Message(
                "请求体必须是 JSON：请在 Forgejo 的 Webhook 设置中把「POST 内容类型」改为 application/json。",
                'The body must be JSON: set "POST content type" to application/json in the webhook\'s settings.',
            ),
            code="not-json",
        )
    delivery = parts.receiver.receive(asked.body, asked.raw_headers)
    return Answer(b"", 204 if delivery.outcome == "ignored" else 202, _CLOSE)


def failed(error: BitongError, _asked: Asked | None) -> Answer:
    """A refused hook says why in few bytes, since the forge keeps the answer (facts/forgejo.md 1.7)."""
    status = status_of(error)
    return Answer(problem(status, error.code, error.message), status, _CLOSE, PROBLEM)


def wrong_method(_parts: Parts, _asked: Asked) -> Answer:
    """405, with the cause of the empty GET that a redirect makes (facts/forgejo.md section 8)."""
    message = Message(
        "这里只接受 POST。若这是没有内容的 GET，说明 Webhook 的地址先被重定向了：请在 Forgejo 中填写不会跳转的确切地址。",
        "Only POST is taken here. An empty GET means that the webhook's URL was redirected first: "
        "give Forgejo the exact URL, which does not redirect.",
    )
    return Answer(problem(405, "method-not-allowed", message), 405, {"Allow": "POST", **_CLOSE}, PROBLEM)
