"""The controllers' side of the log: reading, writing, snapshots, the start. Here is Kafka."""
