"""The rows in the order they are run: those that need the same cluster stand together."""

from __future__ import annotations

from tests.bench.rows import (
    broker_send,
    controller_killed,
    controller_start,
    copy_by_brokers,
    decisions,
    decisions_beside_java,
    features,
    filtered_pulls,
    fold_rate,
    ha_copy,
    lake_landing,
    lake_open,
    lake_proof,
    log_leader,
    majority_append,
    memory_growth,
    power_loss,
    queryable_row,
    recovery,
    rto_beside_java,
    rto_java,
    rto_killed_master,
    rto_paused_master,
    rto_stock_client,
    set_cost,
    slave_gap,
    sync_flush,
    terabyte,
)
from tests.bench.run_context import Row

ROWS = (
    Row(
        "fold",
        "bytes of the log to state and digest, one core, against decoding alone",
        fold_rate.measure,
    ),
    Row(
        "ha-copy",
        "an empty slave copies a log, against sendfile -> recv -> file write",
        ha_copy.measure,
    ),
    Row(
        "rto-killed-master",
        "RTO after kill -9 of the master, own client; nothing lost",
        rto_killed_master.measure,
        required=True,
    ),
    Row(
        "slave-gap", "longest gap between answers when a slave dies or is paused", slave_gap.measure
    ),
    Row(
        "controller-killed",
        "active controller killed, seen by one who asks; failed sends",
        controller_killed.measure,
    ),
    Row(
        "rto-paused-master",
        "RTO when the master is paused, fast timers, own client",
        rto_paused_master.measure,
        required=True,
    ),
    Row(
        "decisions",
        "durable decisions through Kafka and Faust, against a bare producer and consumer",
        decisions.measure,
    ),
    Row(
        "decisions-java",
        "the same decision at Java's controller, one node and three",
        decisions_beside_java.measure,
    ),
    Row(
        "set-cost",
        "what a broker set costs a controller: 10, 100, 1,000 over sockets, 10,000 in process",
        set_cost.measure,
    ),
    Row(
        "controller-start",
        "start on 0.1 M commands of history, with and without snapshot",
        controller_start.measure,
    ),
    Row(
        "controller-start-long",
        "the same on 1 M and 10 M commands",
        controller_start.measure_long,
        long=True,
    ),
    Row(
        "broker-send",
        "pipelined sends of 1 KiB at one broker, against Java, the store and an echo server",
        broker_send.measure,
    ),
    Row(
        "broker-send-3",
        "the same at three brokers, all in sync, against Java",
        broker_send.measure_three,
    ),
    Row(
        "majority-append",
        "appends of 1 KiB at three members that replicate by majority, against DLedger's own",
        majority_append.measure,
    ),
    Row(
        "features",
        "delayed and timed sends, transactions, pulls, pops at one broker, against Java",
        features.measure,
    ),
    Row(
        "filtered-pulls",
        "pulls that choose by SQL92, against the same chosen by tags and without a choice",
        filtered_pulls.measure,
    ),
    Row(
        "sync-flush",
        "64 producers, each message on the disk before its answer, against fdatasync alone and "
        "Java",
        sync_flush.measure,
    ),
    Row(
        "recovery",
        "a store of 1 GiB opened after kill -9 and after an orderly end, Java on the same folder",
        recovery.measure,
    ),
    Row("recovery-long", "the same with 10 GiB", recovery.measure_long, long=True),
    Row(
        "power-loss-queues",
        "start after a loss of power with 1,000 and 10,000 queues, against reading them alone and "
        "Java on the same folder",
        power_loss.measure_queues,
    ),
    Row(
        "power-loss-queues-long", "the same with 100,000", power_loss.measure_queues_long, long=True
    ),
    Row(
        "power-loss",
        "start after a loss of power with a log of 1 GiB, against reading it alone and Java on "
        "the same folder",
        power_loss.measure_bytes,
    ),
    Row("power-loss-long", "the same with 10 GiB", power_loss.measure_bytes_long, long=True),
    Row(
        "terabyte",
        "1,000 files of 1 GiB and 100,000 queues opened and written to with 1,024 descriptors",
        terabyte.measure,
        long=True,
    ),
    Row(
        "copy-brokers",
        "4 GiB copied to an empty slave by broker processes, against Java and sendfile",
        copy_by_brokers.measure,
        long=True,
    ),
    Row(
        "log-leader",
        "the log's leader killed or paused on three Kafka nodes, seen by one who asks",
        log_leader.measure,
    ),
    Row(
        "rto-java",
        "RTO of the released Java client, tuned and stock (tests/interop)",
        rto_java.measure,
        required=True,
    ),
    Row(
        "rto-kills-java",
        "RTO of 30 kills of the master, own client, and of Java's beside",
        rto_beside_java.measure_kills,
        required=True,
        long=True,
    ),
    Row(
        "rto-pauses-java",
        "RTO of 10 pauses of the master, own client, and of Java's with the same timers",
        rto_beside_java.measure_pauses,
        required=True,
        long=True,
    ),
    Row(
        "rto-stock-java",
        "RTO of the stock Java client with default settings, at our brokers and at Java's",
        rto_stock_client.measure,
        long=True,
    ),
    Row(
        "memory-growth",
        "memory of three brokers under a steady load for --minutes, ours and Java's",
        memory_growth.measure,
        long=True,
    ),
    Row(
        "queryable-row",
        "command to queryable row in Delta, against a bare append",
        queryable_row.measure,
    ),
    Row(
        "landing-rate",
        "landing a backlog against reading it alone, bytes a command, queryable rows at 1/s and "
        "1,000/s",
        lake_landing.measure,
    ),
    Row(
        "lake-open",
        "a table opened after 10,000 commits, before and after a round of care",
        lake_open.measure,
    ),
    Row("verify", "the proof over 0.1 M and 1 M commands, and its slope", lake_proof.measure),
    Row(
        "explain",
        "regent explain of one election in 1 M commands",
        lake_proof.measure_question,
        long=True,
    ),
    Row("verify-long", "the proof over 1 M and 10 M commands", lake_proof.measure_long, long=True),
)
