"""What a consumer wants of a topic: tag expressions and their hashes (PROTOCOL
3.5, 4.4).

Responsible for: parsing `A || B`, which messages a subscription takes.
Refuses to know: SQL expressions (`brokers.service.filters`), clients, queues.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.service.filters.lexer import EXPRESSION_CHARACTERS_MAX, BadExpression
from brokers.store.log.properties import java_string_hash

__all__ = ["ALL", "BadExpression", "Subscription", "is_tags", "parse"]

TAGS_MAX = 1_024
ALL = "*"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic of a group. `codes`: hashes of the tags that it takes, None where tags say nothing;
    `version` orders changes (ms, or ns from Go clients).
    """

    topic: str
    expression: str
    codes: frozenset[int] | None
    version: int
    expression_type: str = "TAG"


def is_tags(expression_type: str) -> bool:
    """Whether a subscription of this type names tags."""
    return expression_type in ("", "TAG")


def parse(
    topic: str, expression: str | None, version: int = 0, expression_type: str = "TAG"
) -> Subscription:
    """The subscription behind a text that names tags; `BadExpression` for one that does not."""
    if not is_tags(expression_type):
        raise BadExpression(
            f"the broker does not support consumers that filter by {expression_type[:32]}"
        )
    text = (expression or "").strip()
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise BadExpression("the subscription is too long")
    if not text or text == ALL:
        return Subscription(topic, ALL, None, version)
    tags = [tag.strip() for tag in text.split("||")]
    wanted = [tag for tag in tags if tag]
    if not wanted or len(wanted) > TAGS_MAX:
        raise BadExpression(f"the subscription {text[:80]!r} names no tag, or more than {TAGS_MAX}")
    return Subscription(topic, text, frozenset(java_string_hash(tag) for tag in wanted), version)
