"""Applications that use one feature of brokers each while somebody is hit, and the judgement of
what became of their messages: lost, early, late, twice.

Refuses to know: who is hit, and how.
"""
