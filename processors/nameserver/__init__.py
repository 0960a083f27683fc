"""A name server: routes in memory, RocketMQ's requests, its process."""
