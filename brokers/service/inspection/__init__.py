"""What operators' tools ask about topics, groups, clients and messages, and what they set back.

May know the store, the tables, clients and roles; not sockets beyond a request.
"""
