"""Replication by majority, and who leads, as objects without sockets, files, clocks and chance of
their own (PROTOCOL 10).

Time, chance and answers come in, effects go out (`effects.py`) and are carried out in their order.
May know entries, the port of a log (read here, never written) and messages as values; not bytes,
not messages of clients, not who carries out an effect.
"""
