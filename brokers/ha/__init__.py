"""How a slave copies the commit log of its master: AutoSwitchHA, and the default stream of sets
without controllers (`default_*`).
"""
