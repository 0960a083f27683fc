"""One controller without clock, socket or Kafka: what it answers, asks, claims and tells.

Inputs are calls with the time; outputs are effects as values, which `processors.process` carries
out.
"""
