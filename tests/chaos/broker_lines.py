"""The faults of brokers, in the order in which they are tried: each module brings its own lines."""

from __future__ import annotations

from tests.chaos import (
    brokers_cut,
    brokers_hit,
    brokers_planned,
    brokers_storm,
    damage_lines,
    damaged_starts,
    disk_lines,
    expired_lines,
    feature_lines,
    hung_lines,
    java_lines,
    kill_lines,
    left_out_lines,
    loss_lines,
    stock_lines,
)

LINES = (
    *brokers_hit.LINES,
    *brokers_cut.LINES,
    *brokers_planned.LINES,
    *brokers_storm.LINES,
    *kill_lines.LINES,
    *damage_lines.LINES,
    *damaged_starts.LINES,
    *disk_lines.LINES,
    *expired_lines.LINES,
    *hung_lines.LINES,
    *stock_lines.LINES,
    *loss_lines.LINES,
    *left_out_lines.LINES,
    *java_lines.LINES,
    *feature_lines.LINES,
)
