"""The demo: Regent's main job on real parts, step by step, with a report that a person can
check.
"""
