"""What happened and what was asked: the vocabulary of the log, and its bytes; and the few pieces
that every process has.
"""
