"""The message store: commit log, consume queues, checkpoint and configuration files in RocketMQ's
formats.
"""
