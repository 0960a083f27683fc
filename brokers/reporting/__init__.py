"""Facts of a broker, or of a member of a majority group, on their way to history (DESIGN 7).

May know records and Kafka; not what a fact means, nor who it is about. Losing one changes nothing.
"""
