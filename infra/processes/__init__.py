"""Processes as such: children, ports, spares, the watchdog, their logs and states."""
