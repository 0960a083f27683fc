"""One remoting command: a request or its response, as a value.

Responsible for: the fields every frame carries and what they mean (PROTOCOL 1.2
to 1.4).
Refuses to know: how a command is laid out in bytes, and which connection it came from.
"""

from __future__ import annotations

from msgspec import Struct

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2
SERIALIZATION_JSON = 0
SERIALIZATION_ROCKETMQ = 1
# V5_3_3. Anything from 401 on makes Java peers read our JSON bodies as standard JSON (1.5).
PROTOCOL_VERSION = 479
LANGUAGE = "PYTHON"


class RemotingCommand(Struct, gc=False):
    """A frame's content. `ext` holds strings only, on both sides (1.2: Go refuses anything
    else).
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: str = LANGUAGE
    version: int = PROTOCOL_VERSION
    remark: str | None = None
    ext: dict[str, str] = {}
    body: bytes = b""
    serialization: int = SERIALIZATION_JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & FLAG_ONEWAY)

    @classmethod
    def request(
        cls, code: int, ext: dict[str, str] | None = None, body: bytes = b"", oneway: bool = False
    ) -> RemotingCommand:
        """A request. Its opaque is given by the connection that sends it."""
        return cls(
            int(code), 0, FLAG_ONEWAY if oneway else 0, ext={} if ext is None else ext, body=body
        )

    def reply(
        self,
        code: int = 0,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        remark: str | None = None,
    ) -> RemotingCommand:
        """The response to this request: same opaque, always in JSON, which every peer reads
        (1.3).
        """
        return RemotingCommand(
            int(code),
            self.opaque,
            FLAG_RESPONSE,
            remark=remark,
            ext={} if ext is None else ext,
            body=body,
        )
