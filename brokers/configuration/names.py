"""The settings of a broker under their own names and under RocketMQ's (PROTOCOL 4.19).

Responsible for: which setting has which name there, and from when on a change of it counts.
Refuses to know: what a value may be, and what a setting does.
"""

from __future__ import annotations

from collections.abc import Mapping

from events.config_changes import Counts, Names, Setting

_LIVE, _START, _FILE = Counts.AT_ONCE, Counts.AT_NEXT_START, Counts.NOT_CHANGED

SETTINGS: Mapping[str, Setting] = {
    # Who this broker is, where it listens and keeps its data, and what its answers promise.
    "cluster_name": Setting(_FILE, "brokerClusterName"),
    "broker_name": Setting(_FILE, "brokerName"),
    "listen": Setting(_FILE),
    "advertise": Setting(_FILE),
    "ha_listen": Setting(_FILE),
    "ha_advertise": Setting(_FILE),
    "second_listen": Setting(_FILE),
    "http_listen": Setting(_FILE),
    "metrics_labels": Setting(_FILE),
    "store_dir": Setting(_FILE, "storePathRootDir"),
    "kafka": Setting(_FILE),
    "commit_log_file_bytes": Setting(_FILE, "mappedFileSizeCommitLog"),
    "consume_queue_file_entries": Setting(_FILE),
    "async_learner": Setting(_FILE, "asyncLearner"),
    "broker_id": Setting(_FILE),
    "broker_role": Setting(_FILE),
    "ha_master_address": Setting(_START, "haMasterAddress"),
    "ha_in_sync_gap_bytes": Setting(_START, "haMaxGapNotInSync"),
    "all_ack": Setting(_FILE, "allAckInSyncStateSet"),
    "in_sync_replicas": Setting(_FILE, "inSyncReplicas"),
    "auto_in_sync_replicas": Setting(_FILE, "enableAutoInSyncReplicas"),
    "controllers": Setting(_START, "controllerAddr"),
    "name_servers": Setting(_START, "namesrvAddr"),
    "message_index": Setting(_START, "messageIndexEnable"),
    "index_hash_slots": Setting(_START, "maxHashSlotNum"),
    "index_entries_max": Setting(_START, "maxIndexNum"),
    "scrub_bytes_per_s": Setting(_START),
    "scrub_every_s": Setting(_START),
    "min_in_sync_replicas": Setting(_START, "minInSyncReplicas"),
    "sync_from_last_file": Setting(_START, "syncFromLastFile"),
    "election_priority": Setting(_START, "brokerElectionPriority"),
    "auto_create_topics": Setting(_LIVE, "autoCreateTopicEnable"),
    "reject_transactions": Setting(_LIVE, "rejectTransactionMessage"),
    "transaction_timeout_ms": Setting(_LIVE, "transactionTimeOut"),
    "transaction_check_interval_ms": Setting(_LIVE, "transactionCheckInterval"),
    "transaction_checks_max": Setting(_LIVE, "transactionCheckMax"),
    "broker_permission": Setting(_LIVE, "brokerPermission"),
    "enable_property_filter": Setting(_LIVE, "enablePropertyFilter"),
    "slave_read_enable": Setting(_LIVE, "slaveReadEnable"),
    "in_memory_max_percent": Setting(_LIVE, "accessMessageInMemoryMaxRatio"),
    "message_delay_level": Setting(_START, "messageDelayLevel"),
    "retry_topic_v2": Setting(_START, "enableRetryTopicV2"),
    "read_pop_retry_topic_v1": Setting(_LIVE, "retrieveMessageFromPopRetryTopicV1"),
    "pop_from_retry_percent": Setting(_LIVE, "popFromRetryProbability"),
    "heartbeat_interval_ms": Setting(_START, "brokerHeartbeatInterval"),
    "controller_heartbeat_timeout_ms": Setting(_START, "controllerHeartBeatTimeoutMills"),
    "replica_poll_ms": Setting(_START, "syncBrokerMetadataPeriod"),
    "name_server_register_ms": Setting(_START, "registerNameServerPeriod"),
    "name_server_timeout_ms": Setting(_START, "brokerNotActiveTimeoutMillis"),
    "metadata_sync_ms": Setting(_START),
    "offsets_persist_ms": Setting(_START, "flushConsumerOffsetInterval"),
    "file_reserved_hours": Setting(_LIVE, "fileReservedTime"),
    "delete_when": Setting(_LIVE, "deleteWhen"),
    "disk_max_used_percent": Setting(_LIVE, "diskMaxUsedSpaceRatio"),
    "disk_clean_forcibly_percent": Setting(_LIVE),
    "disk_full_percent": Setting(_LIVE),
    "flush_interval_ms": Setting(_START, "flushIntervalCommitLog"),
    "flush_disk": Setting(_START, "flushDiskType"),
    "sync_flush_timeout_ms": Setting(_START, "syncFlushTimeout"),
    "partial_frame_timeout_ms": Setting(_START),
    "ack_timeout_ms": Setting(_START, "slaveTimeout"),
    "send_queue_wait_ms": Setting(_LIVE, "waitTimeMillsInSendQueue"),
    "page_cache_busy_ms": Setting(_LIVE, "osPageCacheBusyTimeOutMills"),
    "hold_without_master_ms": Setting(_START),
    "route_poll_ms": Setting(_START),
    "drain_ms": Setting(_START),
    "disk_timeout_ms": Setting(_START),
    "timer_wheel_enable": Setting(_START, "timerWheelEnable"),
    "timer_precision_ms": Setting(_START, "timerPrecisionMs"),
    "timer_max_delay_s": Setting(_LIVE, "timerMaxDelaySec"),
    "timer_roll_window_slots": Setting(_START, "timerRollWindowSlot"),
    "timer_slot_messages": Setting(_LIVE, "timerCongestNumEachSlot"),
    "timer_stop_enqueue": Setting(_LIVE, "timerStopEnqueue"),
    "timer_stop_dequeue": Setting(_LIVE, "timerStopDequeue"),
    "timer_flush_interval_ms": Setting(_LIVE, "timerFlushIntervalMs"),
    "timer_log_file_bytes": Setting(_START, "mappedFileSizeTimerLog"),
    "recall_message_enable": Setting(_LIVE, "recallMessageEnable"),
    "ack_wait_shrink_ms": Setting(_START),
    "relink_grace_ms": Setting(_START),
    "ha_heartbeat_ms": Setting(_START, "haSendHeartbeatInterval"),
    "ha_flow_control": Setting(_START, "haFlowControlEnable"),
    "ha_transfer_bytes_per_s": Setting(_START, "maxHaTransferByteInSecond"),
}
"""Every setting of a broker."""

FACTS: Mapping[str, str] = {
    "autoCreateSubscriptionGroup": "true",
    "brokerConfigPath": "",
    "clientCallbackExecutorThreads": "0",
    "duplicationEnable": "false",
    "enableControllerMode": "true",
    "enableLmq": "false",
    "enableSlaveActingMaster": "false",
    "filterServerNums": "0",
    "litePullMessageEnable": "true",
    "longPollingEnable": "true",
    "maxMessageSize": "4194304",
    "messageStorePlugIn": "",
    "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
    "notifyConsumerIdsChangedEnable": "true",
    "rejectPullConsumerEnable": "false",
    "storeReplyMessageEnable": "true",
    "storeType": "default",
    "timerEnableDisruptor": "false",
    "traceOn": "true",
    "traceTopicEnable": "false",
    "transferMsgByHeap": "true",
    "useServerSideResetOffset": "true",
    "useTLS": "false",
}
"""RocketMQ's settings of which brokers of ours have one value: shown, since tools read them."""

NAMES = Names(
    SETTINGS,
    # what RocketMQ's brokers let nobody change
    frozenset(("brokerConfigPath", "rocketmqHome", "configBlackList")),
    FACTS,
    {"flush_disk": {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}},
    hidden=frozenset(("kafka",)),
)
"""All that brokers are asked about."""
