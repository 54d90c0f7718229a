"""The webhook, deliveries, rejections and looks in the OpenAPI document."""

from service.web.described.forms import Schema, flag, listing, many, nullable, record, ref, text, whole
from service.web.described.words import PLAIN, Body, Text, here_is


def schemas() -> dict[str, Schema]:
    """Name → schema."""
    names = many(text(), "Only those that the asker may see.")
    looked = {"registered": names, "removed": names, "rejected": names}
    return {
        "Rejection": record(
            {
                "path": text("The file or folder in the repository."),
                "tool": text("The folder's name; it need not be a valid name."),
                "commit": ref("GitId"),
                "pusher": nullable(text()),
                "at": ref("Time"),
                "problems": many(ref("DefinitionProblem"), minItems=1),
                "current": flag("True while the tip still has it."),
            }
        ),
        "RejectionPage": listing("Rejection"),
        "Delivery": record(
            {
                "id": ref("Id"),
                "received_at": ref("Time"),
                "event": text(),
                "ref": nullable(text("The full ref.")),
                "repository": nullable(text("`owner/name`.")),
                "pusher": nullable(text()),
                "body_sha256": ref("Sha256"),
                "count": whole("How often this very body came.", minimum=1),
                "outcome": nullable(
                    text("Null until a look covers it.", enum=["applied", "unchanged", "ignored", "failed"])
                ),
                "reason": nullable(text()),
                **looked,
            }
        ),
        "DeliveryPage": listing("Delivery"),
        "HookBody": {
            "type": "object",
            "description": "As Forgejo, Gitea and Gogs send it. Read are ref, before, after, repository and pusher.",
        },
        "SyncQueued": record({"queued": {"const": True}}),
        "Look": record(
            {
                "outcome": text(enum=["applied", "unchanged", "failed"]),
                "tip": nullable(ref("GitId", "The branch's commit; null where there is none.")),
                **looked,
                "reason": nullable(text("What is wrong, where something is.")),
            }
        ),
    }


def routes() -> dict[str, Text]:
    """Method and path below the API's root → what is said of the route."""
    event = text("Must agree with the body's shape.", examples=["push"])
    headers = {f"X-{family}-Event": event for family in ("Forgejo", "Gitea", "Gogs", "GitHub")}
    waited = {200: Body("看过了，这是变化。What changed.", "Look"), 202: Body("即将查看。It will look.", "SyncQueued")}
    return {
        "GET /rejections": Text(
            "registrations",
            "What could not be registered, newest first",
            "未能注册的定义：哪个文件、哪一行、怎样改。",
            "Each with file, line, reason and what to write instead.",
            query={
                "tool": text("文件夹名。The folder's name."),
                "current": flag("主干上仍然如此。While the tip still has it."),
            },
            pages=True,
            answers=here_is("RejectionPage"),
        ),
        "GET /rejections/{commit}/{name}/source": Text(
            "registrations",
            "The bytes of a rejected TOOL.hdlp",
            "提交中的原始字节，好对照行号。",
            "As the commit holds them, to look at the lines that the problems name.",
            path={"commit": ref("GitId"), "name": text("`tool` of the rejection.")},
            answers={200: Body("TOOL.hdlp", None, PLAIN)},
            problems={404: ("not-found",), 422: ("bad-parameters",)},
        ),
        "GET /deliveries": Text(
            "registrations",
            "What the forge sent, newest first",
            "收到的 Webhook：每份内容一条，附次数与结果。",
            "Each body once, with how often it came and what the look that covered it did.",
            pages=True,
            answers=here_is("DeliveryPage"),
        ),
        "POST /sync": Text(
            "registrations",
            "Look at the repository now",
            "立即查看仓库。",
            "Answers at once, or with `wait=true` when the look ended.",
            query={
                "wait": flag("等到看完。Answer when it ended."),
                "full": flag("整个历史重看一遍。Look at all of the history."),
            },
            answers=waited,
            problems={503: ("not-available",)},
        ),
        "POST /hooks/forgejo": Text(
            "hooks",
            "The forge says that something moved",
            "Forgejo 的 Webhook，只收 JSON。每个出现的 SHA-256 签名头都必须正确，至少要有一个。推送只是提示，内容以 git 为准。",
            "Forgejo's webhook, JSON only. Every SHA-256 signature header that is present must verify, at least one must be "
            "there, none twice; `Authorization` is not looked at. A hint: what is registered follows from git alone.",
            headers=headers,
            body="HookBody",
            answers={
                202: Body("收到，即将查看。Taken; a look follows.", media=None, headers=("Connection",)),
                204: Body(
                    "收到，与跟踪的分支无关。Taken; not about the tracked branch.", media=None, headers=("Connection",)
                ),
            },
            problems={401: ("unauthenticated",), 415: ("not-json",), 503: ("no-webhook-secret", "cannot-record")},
        ),
        "* /hooks/forgejo": Text(
            "hooks",
            "Any other method",
            "405；没有内容的 GET 说明地址先被重定向了。",
            "405, with the cause of the empty GET that a redirect makes.",
            problems={405: ("method-not-allowed",)},
        ),
    }
