"""How a broker set changes over from fixed ids to controllers and back (PROTOCOL 7.8): orders,
which place counts at a start, when a master has given up.

May know nothing of the rest of a broker. Pure: `brokers/process/changeover` carries it out.
"""
