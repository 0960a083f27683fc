"""The settings of a name server under their own names and under RocketMQ's (318, 319; PROTOCOL
4.19).

Refuses to know: what a value may be, and what a setting does.
"""

from __future__ import annotations

from events.config_changes import Counts, Names, Setting

_LIVE, _START, _FILE = Counts.AT_ONCE, Counts.AT_NEXT_START, Counts.NOT_CHANGED

NAMES = Names(
    {
        "listen": Setting(_FILE),
        "data_dir": Setting(_FILE),
        "enable_controller_in_namesrv": Setting(_FILE, "enableControllerInNamesrv"),
        "controller": Setting(_FILE),
        "scan_interval_ms": Setting(_LIVE, "scanNotActiveBrokerInterval"),
        "order_message_enable": Setting(_LIVE, "orderMessageEnable"),
        "return_order_topic_config": Setting(_LIVE, "returnOrderTopicConfigToBroker"),
        "enable_all_topic_list": Setting(_LIVE, "enableAllTopicList"),
        "enable_topic_list": Setting(_LIVE, "enableTopicList"),
        "need_wait_for_service": Setting(_START, "needWaitForService"),
        "wait_for_service_s": Setting(_START, "waitSecondsForService"),
        "support_acting_master": Setting(_LIVE, "supportActingMaster"),
        "notify_min_broker_id_changed": Setting(_LIVE, "notifyMinBrokerIdChanged"),
        "delete_topic_with_registration": Setting(_LIVE, "deleteTopicWithBrokerRegistration"),
        "departures_max": Setting(_START, "unRegisterBrokerQueueCapacity"),
        "idle_timeout_ms": Setting(_START),
        "partial_frame_timeout_ms": Setting(_START),
        "connections_max": Setting(_START),
        "kafka": Setting(_FILE),
    },
    frozenset(("configBlackList", "configStorePath", "kvConfigPath", "listenPort", "bindAddress")),
    {"clusterTest": "false", "productEnvName": "center", "useTLS": "false"},
    hidden=frozenset(("controller", "kafka")),
)
