"""The tables a broker keeps (topics, groups, offsets) and their files in RocketMQ's formats."""
