"""Requests of clients and operators, and what the broker keeps for them.

May know remoting, store and replica. What writes goes through the role view: only a master does.
"""
