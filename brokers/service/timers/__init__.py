"""The timer wheel: messages that are delivered at a time of their own, and recalled before it.

May know the store, the tables, roles and how messages are sent; not delay levels, nor sockets
beyond a request.
"""
