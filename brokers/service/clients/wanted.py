"""What a reader is given of a topic: by tags or by an SQL92 filter (PROTOCOL 4.15).

Responsible for: the one way from a subscription to what a read takes, for pulls and pops; what is
answered where there is none; that a filter is compiled once while it is in use.
Refuses to know: the grammar of filters, requests, queues.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from brokers.remoting.codes import ResponseCode
from brokers.service.clients.subscriptions import BadExpression, Subscription, is_tags, parse
from brokers.service.filters.compiled import Filter, compiled

SQL92 = "SQL92"
# Parts of all filters that are kept ready, of which one takes less than half a KiB.
KEPT_PARTS_MAX = 100_000
# Characters of a text that take as much.
CHARACTERS_PER_PART = 128
TYPE_CHARACTERS_SHOWN = 32


class FilterRefused(Exception):
    """No messages can be chosen; `code` and the text are the answer."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


@dataclass(frozen=True, slots=True)
class Wanted:
    """For `MessageStore.query`. `codes`: signed 32-bit hashes of the tags that count, None: all;
    `filter`: what the properties must say, None: nothing.
    """

    codes: frozenset[int] | None = None
    filter: Filter | None = None


class Filters:
    """`by_properties`: SQL92 filters are served (RocketMQ's enablePropertyFilter); an operator
    may change it.
    """

    def __init__(self, by_properties: bool = True) -> None:
        self.by_properties = by_properties
        self._kept: OrderedDict[str, Filter | BadExpression] = OrderedDict()
        self._parts = 0

    def asked(self, topic: str, text: str | None, expression_type: str) -> Wanted:
        """For a subscription that a request has with it. FilterRefused with 23 when it cannot be
        read, with 1 when such are not served.
        """
        try:
            if is_tags(expression_type):
                return Wanted(parse(topic, text).codes)
            if self.by_properties:
                return Wanted(filter=self._compiled(text or "", expression_type))
        except BadExpression as error:
            raise FilterRefused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {error}",
            ) from None
        raise _not_served(expression_type)

    def subscribed(self, known: Subscription) -> Wanted:
        """For a subscription that a heartbeat told of. FilterRefused with 27 when it cannot be
        read, with 1 when such are not served.
        """
        if is_tags(known.expression_type):
            return Wanted(known.codes)
        try:
            found = self._compiled(known.expression, known.expression_type)
        except BadExpression:
            raise FilterRefused(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            ) from None
        if not self.by_properties:
            raise _not_served(known.expression_type)
        return Wanted(filter=found)

    def check(self, text: str, expression_type: str) -> None:
        """What a client asks before it begins (46). FilterRefused with 1 when such are not served,
        with 23 and RocketMQ's words for what is wrong.
        """
        if is_tags(expression_type):
            return
        if not self.by_properties:
            raise _not_served(expression_type)
        try:
            self._compiled(text, expression_type)
        except BadExpression as error:
            raise FilterRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None

    def _compiled(self, text: str, expression_type: str) -> Filter:
        if expression_type != SQL92:
            raise BadExpression(
                f"filters of type {expression_type[:TYPE_CHARACTERS_SHOWN]} are unknown: TAG and "
                f"{SQL92} are served"
            )
        found = self._kept.get(text)
        if found is None:
            found = _result(text)
            self._keep(text, found)
        else:
            self._kept.move_to_end(text)
        if isinstance(found, BadExpression):
            raise found
        return found

    def _keep(self, text: str, found: Filter | BadExpression) -> None:
        self._kept[text] = found
        self._parts += _parts(text, found)
        while self._parts > KEPT_PARTS_MAX and len(self._kept) > 1:
            self._parts -= _parts(*self._kept.popitem(last=False))


def _result(text: str) -> Filter | BadExpression:
    try:
        return compiled(text)
    except BadExpression as error:
        return error.with_traceback(None)


def _parts(text: str, found: Filter | BadExpression) -> int:
    own = found.cost if isinstance(found, Filter) else 1
    return own + len(text) // CHARACTERS_PER_PART


def _not_served(expression_type: str) -> FilterRefused:
    return FilterRefused(
        ResponseCode.SYSTEM_ERROR,
        "The broker does not support consumer to filter message by "
        f"{expression_type[:TYPE_CHARACTERS_SHOWN]}",
    )
