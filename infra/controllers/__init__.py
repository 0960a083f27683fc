"""Asking running controllers, as an operator does."""
