"""The files of a majority log, in DLedger's formats: entries, index, term and vote, checkpoint.

May know how the message store keeps files and segments; not roles, not peers, not messages.
"""
