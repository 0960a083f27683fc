"""What members of a majority group say to each other, as values and as bytes (PROTOCOL 10.2).

May know remoting's JSON, entries and how one is laid out. Knows no files, sockets or clocks, and no
rule: who is believed is decided in `brokers/majority/quorum`.
"""
