"""SQL92 filters by properties, as RocketMQ reads them (PROTOCOL 4.15). All of it is pure."""
