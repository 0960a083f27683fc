"""Consume queues: entries, their files, dispatch from the log, reads, repair, ends."""
