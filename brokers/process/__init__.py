"""One broker process: its parts put together, its start, its end, its work in the background.

Knows everything below `brokers`; nothing below imports it.
"""
