"""Transactional messages: halves, what becomes of them, who is asked about those that nobody ended.

May know the store, the tables, roles, clients and how messages are sent; not sockets beyond a
request.
"""
