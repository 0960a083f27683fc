"""A leader of a few lines for tests of operators' verbs: it shows a document and accepts what is
asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from brokers.remoting.command import RemotingCommand
from tests.support import remoting_thread
from tests.support.controller_document import document


class ScriptedLeader:
    """`shown` is the document; `heard` keeps what was asked beside it; `answers` gives other
    answers by code, `then` several in turn.
    """

    def __init__(self, shown: dict[str, Any] | None = None) -> None:
        self.shown = shown or document()
        self.heard: list[RemotingCommand] = []
        self.answers: dict[int, tuple[int, dict[str, str], str]] = {}
        self.then: dict[int, list[tuple[int, dict[str, str], str]]] = {}
        self.address = ""

    def codes(self) -> list[int]:
        return [request.code for request in self.heard]

    def bodies(self) -> list[Any]:
        return [json.loads(request.body) for request in self.heard if request.body]

    @contextmanager
    def serving(self) -> Iterator[ScriptedLeader]:
        with remoting_thread.serving(lambda _, request: self._answer(request)) as self.address:
            yield self

    def _answer(self, request: RemotingCommand) -> RemotingCommand:
        if request.code == 19003:
            return request.reply(body=json.dumps(self.shown).encode())
        self.heard.append(request)
        if self.then.get(request.code):
            self.answers[request.code] = self.then[request.code].pop(0)
        if request.code in self.answers:
            code, ext, remark = self.answers[request.code]
            return request.reply(code, ext, remark=remark or None)
        return request.reply()
