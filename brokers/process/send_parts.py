"""The send service of a broker, put together.

Responsible for: what of the replica and the configuration sends need. Refuses to know: how a send
is served.
"""

from __future__ import annotations

import os
import random
import socket

from brokers.clock import Clock
from brokers.process.config import BrokerConfig
from brokers.process.replica import LocalReplica
from brokers.remoting.addresses import split_address
from brokers.service.role.role_view import RoleView
from brokers.service.sending.messages import UniqueKeys
from brokers.service.sending.send import Mastership, SendService
from brokers.service.tables.table_files import TableFiles
from brokers.store.log.records import host_bytes


def make_sends(
    config: BrokerConfig,
    replica: LocalReplica,
    tables: TableFiles,
    roles: RoleView,
    clock: Clock,
    **wires: object,
) -> SendService:
    """`wires`: what the client service adds. OSError when the advertised name has no address."""
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
    return SendService(
        replica.store,
        tables.topics,
        roles,
        mastership,
        clock,
        cluster_name=config.cluster_name,
        store_host=store_host,
        ack_timeout_ms=config.ack_timeout_ms,
        unique_keys=UniqueKeys(store_host[:-4], os.getpid(), random.getrandbits(32)),
        **wires,  # type: ignore[arg-type]
    )
