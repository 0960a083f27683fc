"""`regent doctor`: what must be right around Regent, looked at from here. Each module checks one
kind of surroundings.
"""
