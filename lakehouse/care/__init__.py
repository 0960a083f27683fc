"""Keeping the tables small and fast: what is due, and doing it."""
