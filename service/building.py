"""From settings to the parts that need nothing else: what runs tools, what reads the repository, where people sign in."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from service.domain.executors import Executor
from service.errors import Message, UsageError
from service.execution.embeddings import Embeddings
from service.execution.executors.bubblewrap import shown_by
from service.execution.executors.failed_when import FailedWhen
from service.execution.executors.gatekeeper import GatekeeperExecutor
from service.execution.executors.gatekeeper import Node as GatekeeperNode
from service.execution.executors.gatekeeper_answer import AnswerFields
from service.execution.executors.git_forgejo import GitForgejoExecutor
from service.execution.executors.hlpd_api import HlpdApiExecutor
from service.execution.executors.rlimits import ToolLimits
from service.execution.executors.sandbox import Sandbox
from service.execution.executors.shell import ShellExecutor
from service.execution.operations import Operations
from service.intake.anchors.part import Anchors
from service.intake.identity import RepositoryIdentity
from service.intake.mirror.looking import Mirror
from service.settings import Settings
from service.store import restoring
from service.store.backup import forget_parts
from service.store.checkpointing import Checkpoints
from service.store.database import Database
from service.store.folder import DataFolder
from service.store.migrations import ensure_schema
from service.store.retention import Retention
from service.web.oauth import Forge


def database(settings: Settings, folder: DataFolder) -> Database:
    """The database, at this version's schema. Raises Unavailable for one that was restored and not acknowledged."""
    ensure_schema(settings.database_path)
    found = Database(settings.database_path)
    try:
        restoring.refuse_unacknowledged(folder, found)
        forget_parts(folder.path)
    except BaseException:
        found.close()
        raise
    return found


def retention(settings: Settings, database: Database) -> Retention:
    """What keeps the database within its bounds."""
    return Retention(
        database,
        keep_days=settings.keep_output_days,
        keep_bytes=settings.keep_output_bytes,
        most_bytes=settings.max_database_bytes,
    )


def anchors(settings: Settings, folder: DataFolder, database: Database, checkpoints: Checkpoints) -> Anchors | None:
    """What commits checkpoints to a repository; None where none is named."""
    if settings.anchor_repository_url is None:
        return None
    return Anchors(
        database,
        checkpoints,
        url=settings.anchor_repository_url,
        branch=settings.anchor_branch,
        username=settings.anchor_repository_username,
        token=reveal(settings.anchor_repository_token),
        interval_s=float(settings.anchor_interval_s),
        behind=lambda known: restoring.hold(folder, database, known),
    )


def mirror(settings: Settings) -> Mirror | None:
    """What reads the tracked repository, started; None where none is tracked."""
    if settings.repository_url is None:
        return None
    mirror = Mirror(
        folder=Path(settings.data_dir) / "mirror.git",
        url=settings.repository_url,
        branch=settings.repository_branch,
        tools_path=settings.tools_path,
        username=settings.repository_username,
        token=reveal(settings.repository_token),
        deadline_s=float(settings.fetch_timeout_s),
    )
    mirror.start()
    return mirror


def refuse_shown(settings: Settings) -> None:
    """Refuse to keep what is ours where every shell tool could read it (cases.md X11, X33). Raises UsageError."""
    if settings.shell_sandbox == "none":
        return
    for name, path in settings.private_paths().items():
        shown = shown_by(path, settings.shell_read_paths, network=settings.shell_network)
        if shown is not None and shown in settings.shell_read_paths:
            raise UsageError(
                Message(
                    f"设置 shell_read_paths 里有一个路径会让工具读到 {name} 所指之处；请去掉它，或把后者移到别处。",
                    f"A path in the setting shell_read_paths would let tools read what {name} names; "
                    "take it out, or move the other elsewhere.",
                )
            )
        if shown is not None:
            raise UsageError(
                Message(
                    f"设置 {name} 所指之处在 {shown} 里，shell 工具读得到；请移到别处。",
                    f"The setting {name} names a place that {shown} shows to shell tools; move it elsewhere.",
                )
            )


def sandbox(settings: Settings) -> Sandbox:
    """Where shell tools run."""
    return Sandbox(
        settings.shell_sandbox,
        read_paths=settings.shell_read_paths,
        network=settings.shell_network,
        tmp_bytes=settings.shell_tmp_bytes,
        shm_bytes=settings.shell_tmp_bytes,
        limits=ToolLimits(
            memory_bytes=settings.shell_memory_bytes,
            processes=settings.shell_processes,
            file_bytes=settings.shell_file_bytes,
        ),
    )


def identity(settings: Settings) -> RepositoryIdentity:
    """Which repository is the tracked one."""
    return RepositoryIdentity(
        fixed=settings.repository_id,
        repository_url=settings.repository_url,
        api_url=settings.forgejo_url,
        token=reveal(settings.forgejo_token),
    )


def operations(settings: Settings, folder: DataFolder) -> Operations:
    """Which of the forge's operations there are."""
    return Operations(settings.forgejo_url, reveal(settings.forgejo_token), folder)


def executors(
    settings: Settings,
    sandbox: Sandbox,
    operations: Operations,
    repository: Callable[[], tuple[str, str] | None],
) -> Mapping[str, Executor]:
    """The four ways to run a tool, by name. Raises UsageError that names the setting."""
    nodes = {
        name: GatekeeperNode(
            url=node.url,
            token=reveal(node.token),
            fields=AnswerFields.read(node.answer),
            insecure=node.insecure,
            argv=node.argv,
            cmd=node.cmd,
        )
        for name, node in settings.nodes.items()
    }
    return {
        "shell": ShellExecutor(sandbox),
        "gatekeeper": GatekeeperExecutor(nodes, settings.gatekeeper_default),
        "hlpd-api": HlpdApiExecutor(
            settings.hlpd_api_url,
            reveal(settings.hlpd_api_token),
            settings.hlpd_api_rpc_path,
            _failed_when(settings.hlpd_api_failed_when),
        ),
        "git-forgejo": GitForgejoExecutor(
            settings.forgejo_url,
            reveal(settings.forgejo_tools_token),
            settings.forgejo_operations,
            repository,
            operations,
        ),
    }


def _failed_when(mapping: Mapping[str, Any]) -> FailedWhen:
    try:
        return FailedWhen.read(mapping)
    except ValueError as error:
        raise UsageError(
            Message(f"设置 hlpd_api_failed_when 不对：{error}", f"The setting hlpd_api_failed_when is wrong: {error}")
        ) from None


def embeddings(settings: Settings) -> Embeddings | None:
    """What tells how near two meanings are; None unless an endpoint is named."""
    if settings.embeddings_url is None:
        return None
    return Embeddings(settings.embeddings_url, reveal(settings.embeddings_token), settings.embeddings_model)


def forge(settings: Settings) -> Forge | None:
    """Where people sign in; None until an OAuth2 application of the forge is named."""
    if settings.oauth_client_id is None or settings.oauth_client_secret is None or settings.forgejo_url is None:
        return None
    internal = settings.forgejo_url.removesuffix("/api/v1")
    return Forge(
        public=settings.forgejo_public_url or internal,
        internal=internal,
        client_id=settings.oauth_client_id,
        client_secret=settings.oauth_client_secret.reveal(),
        back=f"{settings.public_url}/sign-in/callback",
        scopes=settings.oauth_scopes,
    )


def commits(settings: Settings) -> str | None:
    """Where people read a commit on the forge: its public address, and the repository's own path there."""
    if settings.forgejo_public_url is None or not (settings.repository_url or "").startswith(("http://", "https://")):
        return None
    owner, _, name = settings.repository_url.removesuffix(".git").rpartition("/")
    return f"{settings.forgejo_public_url}/{owner.rpartition('/')[2]}/{name}/commit/"


def reveal(secret: Any) -> str | None:
    """What a secret setting holds."""
    return None if secret is None else secret.reveal()
