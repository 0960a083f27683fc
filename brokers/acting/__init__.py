"""Sets without controllers: a slave acts for its master, in part, until the master is back.

The rules as pure objects (PROTOCOL 7): who acts, how a broker comes back, who holds a lock, how
messages that are due leave a set without a master. May know remoting, the forms of messages, the
tables of a broker and its queue locks; not sockets, not who carries out an effect, not how special
services do their work.
"""
