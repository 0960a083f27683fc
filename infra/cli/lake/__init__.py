"""The verbs that ask the landed history, and those that care for it."""
