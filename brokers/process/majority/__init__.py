"""One member of a majority group as a process, or as a part of one: the pure member
(`brokers/majority/quorum`) with its folder, its port, its peers and a clock.

Knows what lies below `brokers`, and nothing of its sibling's: a broker's other parts stand in
`brokers/process`. `python -m brokers.process.majority --config FILE` runs one (PROTOCOL 10.12).
"""
