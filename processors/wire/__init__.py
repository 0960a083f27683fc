"""Requests of RocketMQ into commands, outcomes into RocketMQ's answers. Pure."""
