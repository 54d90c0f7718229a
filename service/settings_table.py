"""The table of settings: each one's name, default, unit, what it is for, and how text becomes its value (contract/cli.md)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service import setting_values as values

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, default, unit, what it is for, and how text or TOML becomes its value."""

    name: str
    default: Any
    what: str
    read: Callable[[Any], Any]
    secret: bool = False


_MIB: Final = 1024 * 1024

SETTINGS: Final = (
    Setting(
        "data_dir",
        Path("./data"),
        "everything Bitong keeps: database, mirror, keys, lock",
        lambda v: Path(values.text(v)),
    ),
    Setting("host", "127.0.0.1", "address to listen on", values.text),
    Setting("port", 8920, "port to listen on; 0 lets the system choose", values.whole(0, 65_535)),
    Setting("public_url", "http://127.0.0.1:8920", "how people and the forge reach it, sub-path included", values.url),
    Setting("allowed_hosts", (), "Host names answered, beside that of public_url and loopback", values.texts),
    Setting("trusted_proxies", LOOPBACK, "addresses whose X-Forwarded-For is believed", values.texts),
    Setting("database_url", None, "an SQLAlchemy URL; SQLite in data_dir unless set", values.text),
    Setting("repository_url", None, "native-repo: an http(s) URL or a local path", values.repository),
    Setting("repository_branch", "main", "the tracked branch", values.branch),
    Setting(
        "repository_id",
        None,
        "the forge's number of the repository; asked of the API unless set",
        values.whole(1, 2**53),
    ),
    Setting("tools_path", "tools", "the folder of tools in the repository", values.folder_path),
    Setting("repository_username", "bitong", "user name for git over HTTP", values.text),
    Setting("repository_token", None, "token for git over HTTP", values.secret, secret=True),
    Setting("repository_insecure", False, "let repository_token go over plain http to another host", values.flag),
    Setting("fetch_timeout_s", 300, "seconds that one look at the repository may take in all", values.whole(5, 86_400)),
    Setting("webhook_secret", None, "the webhook's secret; without it hooks are refused", values.secret, secret=True),
    Setting(
        "webhook_secret_previous", None, "the secret before, while it is being changed", values.secret, secret=True
    ),
    Setting("max_hook_bytes", 16 * _MIB, "bytes of a webhook's body", values.whole(1024, 1024 * _MIB)),
    Setting("poll_interval_s", 60, "seconds between looks that heal lost hooks", values.whole(1, 86_400)),
    Setting("forgejo_url", None, "the forge's API from this host, ending in /api/v1", values.url),
    Setting(
        "forgejo_public_url", None, "the forge as people reach it; forgejo_url without /api/v1 unless set", values.url
    ),
    Setting(
        "forgejo_tools_token",
        None,
        "the token of git-forgejo tools, apart from the service's",
        values.secret,
        secret=True,
    ),
    Setting(
        "forgejo_operations",
        None,
        "operations that git-forgejo tools may call, shell globs; reading repositories and issues unless set",
        values.texts,
    ),
    Setting("forgejo_token", None, "the service's own token for the forge's API", values.secret, secret=True),
    Setting(
        "gatekeepers", {}, "name → {url, token or token_file, answer, argv, cmd, insecure}", values.table, secret=True
    ),
    Setting("gatekeeper_default", None, "the node of definitions that name none", values.text),
    Setting("forgejo_insecure", False, "let the forge's tokens go over plain http to another host", values.flag),
    Setting("hlpd_api_url", None, "the persona database's API, with its path if it has one", values.url),
    Setting("hlpd_api_token", None, "the token for it", values.secret, secret=True),
    Setting("hlpd_api_rpc_path", "/call", "where it takes calls by a method's name", values.text),
    Setting(
        "hlpd_api_failed_when",
        {"ok": False, "error": "not null"},
        "what means failure in an answer to such a call: field → value, or `not` and a value in JSON",
        values.table,
    ),
    Setting("hlpd_api_insecure", False, "let its token go over plain http to another host", values.flag),
    Setting(
        "shell_sandbox",
        "bubblewrap",
        "how shell tools are kept apart: bubblewrap, or none",
        values.one_of("bubblewrap", "none"),
    ),
    Setting("shell_network", False, "whether shell tools have a network", values.flag),
    Setting("shell_read_paths", (), "further paths that shell tools may read", values.texts),
    Setting(
        "shell_memory_bytes",
        512 * _MIB,
        "bytes of memory for each process of a shell tool",
        values.whole(16 * _MIB, 2**40),
    ),
    Setting("shell_processes", 256, "processes and threads of a shell tool at once", values.whole(8, 100_000)),
    Setting("shell_file_bytes", 256 * _MIB, "bytes of one file that a shell tool writes", values.whole(1024, 2**40)),
    Setting("shell_tmp_bytes", 64 * _MIB, "bytes of a shell tool's /tmp and /dev/shm", values.whole(1024, 2**40)),
    Setting("max_runs", 16, "runs at once, in all", values.whole(1, 1024)),
    Setting("max_runs_per_token", 8, "runs at once for one token", values.whole(1, 1024)),
    Setting("max_queue", 64, "calls that may wait for a run to end", values.whole(0, 4096)),
    Setting("max_wait_s", 3600, "seconds that a caller waits for its answer at most", values.whole(1, 86_400)),
    Setting("max_params_bytes", 8 * _MIB, "bytes of an exec call's body", values.whole(1024, 1024 * _MIB)),
    Setting("confirmation_ttl_s", 900, "seconds that a confirmation waits", values.whole(1, 30 * 86_400)),
    Setting("confirm_self", True, "whether who asked may confirm it too", values.flag),
    Setting("shutdown_grace_s", 10, "seconds that runs may go on after SIGTERM", values.whole(0, 3600)),
    Setting("keep_output_days", 90, "days that output and parameters of a run are kept", values.whole(1, 36_500)),
    Setting(
        "keep_output_bytes",
        2048 * _MIB,
        "bytes of output and parameters kept in all; beyond them the oldest go",
        values.whole(_MIB, 2**50),
    ),
    Setting(
        "max_database_bytes",
        None,
        "bytes of the database in use beyond which nothing new runs",
        values.whole(_MIB, 2**50),
    ),
    Setting("log_origin", None, "the log's name; bitong/<host> unless set", values.text),
    Setting(
        "anchor_repository_url", None, "where checkpoints are committed: an http(s) URL or a path", values.repository
    ),
    Setting("anchor_branch", "bitong-audit", "the branch they are committed to", values.branch),
    Setting("anchor_interval_s", 60, "seconds between two of those commits, at least", values.whole(1, 86_400)),
    Setting("anchor_repository_username", "bitong", "user name for that repository over HTTP", values.text),
    Setting("anchor_repository_token", None, "token for that repository over HTTP", values.secret, secret=True),
    Setting(
        "anchor_repository_insecure",
        False,
        "let anchor_repository_token go over plain http to another host",
        values.flag,
    ),
    Setting("learn_intents", True, "whether runs teach which tool an intent means", values.flag),
    Setting(
        "embeddings_url",
        None,
        "an OpenAI-compatible API (…/v1) whose embeddings help to order what an intent finds",
        values.url,
    ),
    Setting("embeddings_model", "multilingual-e5-small", "the model asked for there", values.text),
    Setting("embeddings_token", None, "the token for it", values.secret, secret=True),
    Setting("embeddings_insecure", False, "let its token go over plain http to another host", values.flag),
    Setting("oauth_client_id", None, "the id of an OAuth2 application of the forge, for signing in", values.text),
    Setting("oauth_client_secret", None, "that application's secret", values.secret, secret=True),
    Setting("oauth_scopes", {}, "a Forgejo user, group or group:team → [read, exec, confirm, admin]", values.scopes),
    Setting("session_hours", 12, "hours until somebody signed in has to sign in again", values.whole(1, 24 * 90)),
    Setting("language", "zh", "of pages when the reader's is unknown: zh or en", values.one_of("zh", "en")),
    Setting("metrics_public", False, "whether /metrics is open to everybody", values.flag),
)
