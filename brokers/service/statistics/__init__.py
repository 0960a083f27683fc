"""How much a broker stores and gives, counted as RocketMQ counts it.

Knows nothing of messages, clients or the store.
"""
