"""Pulls, held pulls, queries and the repair of what cannot be read."""
