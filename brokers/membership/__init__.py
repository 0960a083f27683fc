"""How a broker belongs: its identity, its talks with controllers and name servers.

May know remoting, the replica's roles and the files of identity; not the store, not clients.
"""
