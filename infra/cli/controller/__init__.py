"""The verbs of `regent controller` for running controllers."""
