"""The way out of a set whose master is away: what is due goes to the master of another set
(PROTOCOL 7.4).
"""
