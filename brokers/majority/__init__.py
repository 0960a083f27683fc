"""Majority replication, as DLedger does it: entries and what a log of them promises.

`store` keeps them in files. A set replicates this way or by its in-sync set, never both (D10).

Here: what every part of it shares. It knows no files, sockets or clocks, and nothing of messages,
queues or clients.
"""
