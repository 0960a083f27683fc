"""The configuration of a running broker: RocketMQ's names for it, and what an operator may change
of it (25, 26; PROTOCOL 4.19).
"""
