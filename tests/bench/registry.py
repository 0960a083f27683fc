"""The rows in the order they are run: those that need the same cluster stand together."""

from __future__ import annotations

from tests.bench.rows import broker_send, fold_rate, ha_copy, rto_killed_master
from tests.bench.run_context import Row

ROWS = (
    Row("fold", "bytes of the log to state and digest, one core, against decoding alone", fold_rate.measure),
    Row("ha-copy", "an empty slave copies a log, against sendfile -> recv -> file write", ha_copy.measure),
    Row("rto-killed-master", "RTO after kill -9 of the master, own client; nothing lost", rto_killed_master.measure, required=True),
    Row("broker-send", "pipelined sends of 1 KiB at one broker, against the store and an echo server", broker_send.measure),
)
