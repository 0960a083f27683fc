"""The log as a manual: pages of commands in words, and what came of them.

`python -m tests.scenarios.pages --rewrite` writes what comes of them now; a reviewer reads the
difference. The words are those of `regent history` and `regent state`.
"""
