"""On what terms a broker takes sends, by its configuration and its replica.

Refuses to know: how a send is served.
"""

from __future__ import annotations

import os
import random
import socket

from brokers.process.config import BrokerConfig
from brokers.process.replica import LocalReplica
from brokers.remoting.addresses import split_address
from brokers.replica.put_rules import BusyGate
from brokers.service.sending.messages import UniqueKeys
from brokers.service.sending.send import Mastership, SendTerms
from brokers.store.log.records import host_bytes


def send_terms(config: BrokerConfig, replica: LocalReplica) -> SendTerms:
    """OSError when the advertised name has no address."""
    mastership = Mastership(
        replica.leads,
        replica.write_refusal,
        replica.log_grew,
        replica.confirmation,
        replica.storage_failed,
        replica.flushed if config.flush_disk == "sync" else None,
    )
    host, port = split_address(config.advertised)
    try:
        store_host = host_bytes(host, port)
    except ValueError:
        store_host = host_bytes(socket.gethostbyname(host), port)
    return SendTerms(
        mastership,
        config.cluster_name,
        store_host,
        config.ack_timeout_ms,
        UniqueKeys(store_host[:-4], os.getpid(), random.getrandbits(32)),
        BusyGate(config.send_queue_wait_ms, config.page_cache_busy_ms),
    )
