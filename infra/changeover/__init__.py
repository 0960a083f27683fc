"""Broker sets that change over from fixed ids to controllers and back (PROTOCOL 7.8), as an
operator does it: facts, plan, steps, proof.
"""
