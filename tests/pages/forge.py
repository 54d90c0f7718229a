"""A forge's OAuth2 side as Forgejo 11 speaks it (facts of running servers): real HTTP on loopback, one user, codes used once."""

import base64
import hashlib
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

CLIENT_ID, CLIENT_SECRET = "bitong-client", "bitong-secret"


class Forge:
    """`person` is what userinfo answers; `codes` those not yet used, each with what was asked for it."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {
            "sub": "2",
            "name": "冰朔",
            "preferred_username": "bingshuo",
            "email": "bingshuo@example.org",
            "groups": None,
        }
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: set[str] = set()
        self.nonce: str | None = None  # said in the id_token instead of the one that was asked for
        self.redirects: list[str] = []
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                forge.get(self)

            def do_POST(self) -> None:
                forge.post(self)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        if parts.path == "/login/oauth/authorize":
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            code = secrets.token_urlsafe(16)
            self.codes[code] = asked
            back = f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
            self._answer(handler, 302, None, Location=back)
        elif parts.path == "/login/oauth/userinfo":
            token = (handler.headers["Authorization"] or "").removeprefix("Bearer ")
            self._answer(handler, *((200, self.person) if token in self.tokens else (401, {"message": "no"})))
        else:
            self._answer(handler, 404, {"message": "not found"})

    def post(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        fits = (
            asked is not None
            and asked["code_challenge_method"] == "S256"
            and asked["code_challenge"] == base64.urlsafe_b64encode(challenge).decode().rstrip("=")
            and asked["redirect_uri"] == form.get("redirect_uri")
            and (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        )
        if asked is None or not fits:
            self._answer(
                handler, 400, {"error": "unauthorized_client", "error_description": "client is not authorized"}
            )
            return
        token = secrets.token_urlsafe(24)
        self.tokens.add(token)
        claims = {"sub": self.person["sub"], "nonce": self.nonce or asked["nonce"]}
        middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        told = {"access_token": token, "token_type": "bearer", "expires_in": 3600, "id_token": f"e30.{middle}.c2ln"}
        self._answer(handler, 200, told)

    @staticmethod
    def _answer(handler: BaseHTTPRequestHandler, status: int, shape: Any, **headers: str) -> None:
        content = b"" if shape is None else json.dumps(shape, ensure_ascii=False).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
