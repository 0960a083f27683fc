"""The message store: commit log, consume queues, index and checkpoint in RocketMQ's formats.

May know remoting's codes; not roles, not replication, not clients.
"""
