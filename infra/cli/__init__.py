"""The verbs of `regent`: arguments in, answers and exit codes out.

A module is imported when its verb is used.
"""
