"""Questions to the landed history, each with its rows and its text."""
