"""The rules: commands folded into state, exactly the same in controllers, Spark and simulation.

Pure for ever: no clock, no chance, no I/O. Released versions of the rules never change.
"""
