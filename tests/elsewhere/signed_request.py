"""One request to a store that speaks S3, signed (AWS Signature Version 4), for what neither library
asks: buckets with object lock, versions, retention.

Source: Amazon S3, "Authenticating Requests (AWS Signature Version 4)".
"""

from __future__ import annotations

import hashlib
import hmac
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote, urlsplit

LIMIT_S = 60.0


class Key(NamedTuple):
    """Who asks, and where."""

    endpoint: str
    key_id: str
    secret: str
    region: str


class Answer(NamedTuple):
    """What came back; names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def asked(
    key: Key,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Ask; an error status is an answer too."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    sent = {
        "host": urlsplit(key.endpoint).netloc,
        "x-amz-date": now,
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        **(headers or {}),
    }
    asked_for = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}"
        for name, value in sorted((query or {}).items())
    )
    sent["authorization"] = _signature(key, method, path, asked_for, sent, now)
    request = urllib.request.Request(
        f"{key.endpoint}{quote(path)}{'?' if asked_for else ''}{asked_for}",
        data=body or None,
        method=method,
        headers=sent,
    )
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return Answer(answer.status, answer.read(), _lower(answer.headers))
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read(), _lower(error.headers))


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _signature(
    key: Key, method: str, path: str, query: str, headers: Mapping[str, str], now: str
) -> str:
    names = sorted(headers)
    signed = ";".join(names)
    canonical = "\n".join(
        [
            method,
            quote(path),
            query,
            *(f"{name}:{headers[name]}" for name in names),
            "",
            signed,
            headers["x-amz-content-sha256"],
        ]
    )
    parts = (now[:8], key.region, "s3", "aws4_request")
    text = "\n".join(
        ["AWS4-HMAC-SHA256", now, "/".join(parts), hashlib.sha256(canonical.encode()).hexdigest()]
    )
    secret = f"AWS4{key.secret}".encode()
    for part in (*parts, text):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    scope = "/".join(parts)
    return (
        f"AWS4-HMAC-SHA256 Credential={key.key_id}/{scope}, SignedHeaders={signed}, "
        f"Signature={secret.hex()}"
    )
