"""What operators ask a name server: 100 to 102, 205, 206, 216, 217, 219, 224, 304, 311 to 313, 318,
319, 327 (PROTOCOL 4.1).

Responsible for: these answers; that what is to outlive a restart is on the disk before it counts.
Refuses to know: the rules of routes, of keys and of settings; sockets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.addresses import split_address
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection, Handler
from brokers.remoting.fields import BadField, reading_fields, text
from events.config_changes import ChangeRefused, changed, shown
from events.config_kept import Kept, kept_of
from processors.nameserver.config import NameServerConfig
from processors.nameserver.kept_files import KV_FILE, SETTINGS_FILE, KeptFile, NotKept
from processors.nameserver.kv import ORDER_NAMESPACE, KvConfig, KvRefused, kv_of
from processors.nameserver.names import NAMES
from processors.nameserver.registration import BadRegistration, decode_route
from processors.nameserver.routes import RouteTable

UNIT, UNIT_SUBSCRIPTION = 1, 2

_log = logging.getLogger("regent.nameserver")


class OperatorRequests:
    """`written`: what the name server's own file says; `start_with`: with what was changed in
    earlier runs; `running`: what is in force. NotKept when
    what was kept cannot be read.
    """

    def __init__(self, written: NameServerConfig, table: RouteTable) -> None:
        self._table = table
        self._written = written
        folder = None if written.data_dir is None else Path(written.data_dir)
        self._kv_file, self._settings_file = (
            KeptFile(folder, KV_FILE),
            KeptFile(folder, SETTINGS_FILE),
        )
        self._kv = self._kv_file.load(kv_of, KvConfig())
        self._kept = self._settings_file.load(kept_of, Kept())
        self.running = self._wanted = self._kept.over(NAMES, written)[0]
        self.start_with = self.running

    def handlers(self) -> dict[int, Handler]:
        """Request code to handler."""
        asked: dict[int, Callable[[RemotingCommand], RemotingCommand]] = {
            RequestCode.PUT_KV_CONFIG: self._put_kv,
            RequestCode.GET_KV_CONFIG: self._get_kv,
            RequestCode.DELETE_KV_CONFIG: self._delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._list_kv,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._allow,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._forget_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._add_topic,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: lambda asked: self._flagged(asked, UNIT),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (
                lambda asked: self._flagged(asked, UNIT_SUBSCRIPTION)
            ),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (
                lambda asked: self._flagged(asked, UNIT_SUBSCRIPTION, UNIT)
            ),
            RequestCode.GET_NAMESRV_CONFIG: self._show,
        }
        found: dict[int, Handler] = {code: reading_fields(act) for code, act in asked.items()}
        return {**found, RequestCode.UPDATE_NAMESRV_CONFIG: self._change}

    # -- keys and values ---------------------------------------------------------------------------

    def order_of(self, topic: str) -> str | None:
        """Which brokers' queues ordered producers of a topic use, where that is served."""
        return self._kv.get(ORDER_NAMESPACE, topic) if self.running.order_message_enable else None

    def order_table(self) -> bytes:
        """What brokers are told of ordered topics when they register; empty when nothing."""
        listed = self._kv.listed(ORDER_NAMESPACE)
        if listed is None or not self.running.return_order_topic_config:
            return b""
        return fastjson.dumps({"table": listed})

    def _put_kv(self, request: RemotingCommand) -> RemotingCommand:
        """100."""
        ext = request.ext
        try:
            kv = self._kv.with_value(
                ext.get("namespace", ""), ext.get("key", ""), text(ext, "value")
            )
            return self._keep_kv(request, kv)
        except KvRefused as refused:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(refused))

    def _keep_kv(self, request: RemotingCommand, kv: KvConfig) -> RemotingCommand:
        try:
            self._kv_file.save(kv.document())
        except NotKept as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        self._kv = kv
        return request.reply()

    def _get_kv(self, request: RemotingCommand) -> RemotingCommand:
        """101."""
        namespace, key = text(request.ext, "namespace"), text(request.ext, "key")
        value = self._kv.get(namespace, key)
        if value is None:
            remark = f"No config item, Namespace: {namespace} Key: {key}"
            return request.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return request.reply(ext={"value": value})

    def _delete_kv(self, request: RemotingCommand) -> RemotingCommand:
        """102."""
        kv = self._kv.without(text(request.ext, "namespace"), text(request.ext, "key"))
        return request.reply() if kv is self._kv else self._keep_kv(request, kv)

    def _list_kv(self, request: RemotingCommand) -> RemotingCommand:
        """219."""
        namespace = text(request.ext, "namespace")
        listed = self._kv.listed(namespace)
        if listed is None:
            remark = f"No config item, Namespace: {namespace}"
            return request.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return request.reply(body=fastjson.dumps({"table": listed}))

    # -- routes ------------------------------------------------------------------------------------

    def _wipe(self, request: RemotingCommand) -> RemotingCommand:
        """205."""
        count = self._table.wipe_writes(text(request.ext, "brokerName"))
        _log.warning("nobody sends to %s any more: %d topics", request.ext["brokerName"], count)
        return request.reply(ext={"wipeTopicCount": str(count)})

    def _allow(self, request: RemotingCommand) -> RemotingCommand:
        """327."""
        count = self._table.allow_writes(text(request.ext, "brokerName"))
        return request.reply(ext={"addTopicCount": str(count)})

    def _forget_topic(self, request: RemotingCommand) -> RemotingCommand:
        """216."""
        self._table.forget_topic(text(request.ext, "topic"), request.ext.get("clusterName") or None)
        return request.reply()

    def _add_topic(self, request: RemotingCommand) -> RemotingCommand:
        """217."""
        try:
            self._table.add_topic(text(request.ext, "topic")[:255], decode_route(request.body))
        except BadRegistration as error:
            raise BadField(str(error)) from None
        return request.reply()

    # -- lists -------------------------------------------------------------------------------------

    def _topics(self, request: RemotingCommand) -> RemotingCommand:
        """206."""
        if not self.running.enable_all_topic_list:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark="disable")
        return request.reply(body=fastjson.dumps({"topicList": list(self._table.topics)}))

    def _topics_of_cluster(self, request: RemotingCommand) -> RemotingCommand:
        """224."""
        cluster = text(request.ext, "cluster")
        return self._listed(request, lambda: self._table.topics_of_cluster(cluster))

    def _flagged(self, request: RemotingCommand, wanted: int, unwanted: int = 0) -> RemotingCommand:
        """311, 312, 313."""
        return self._listed(request, lambda: self._table.topics_flagged(wanted, unwanted))

    def _listed(self, request: RemotingCommand, topics: Callable[[], list[str]]) -> RemotingCommand:
        if not self.running.enable_topic_list:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark="disable")
        return request.reply(body=fastjson.dumps({"topicList": topics()}))

    def _system_topics(self, request: RemotingCommand) -> RemotingCommand:
        """304."""
        names, address = self._table.system_list()
        return request.reply(body=fastjson.dumps({"brokerAddr": address, "topicList": names}))

    # -- settings ----------------------------------------------------------------------------------

    def _show(self, request: RemotingCommand) -> RemotingCommand:
        """319."""
        host, port = split_address(self._written.listen)
        lines = NAMES.lines(self._wanted, {"bindAddress": host, "listenPort": str(port)})
        body = "\n".join(f"{key}={value}" for key, value in sorted(lines.items()))
        return request.reply(body=f"{body}\n".encode())

    def _change(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """318."""
        try:
            made = changed(NAMES, self._wanted, self.running, request.body)
            if made.fields:
                wall_ms = time.time_ns() // 1_000_000
                kept = self._kept.with_changes(self._written, made.wanted, wall_ms)
                self._settings_file.save(kept.document())
                for name in made.fields:
                    value = shown(getattr(made.wanted, name))
                    _log.warning("%s sets %s to %s", connection.peer, name, value)
                self._kept, self._wanted, self.running = kept, made.wanted, made.running
        except ChangeRefused as refused:
            code = ResponseCode.NO_PERMISSION if refused.forbidden else ResponseCode.SYSTEM_ERROR
            return request.reply(code, remark=str(refused))
        except NotKept as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return request.reply(remark=made.remark)
