"""What a broker shows over HTTP: metrics, health, readiness. May know services and roles of the
broker; not how requests of RocketMQ are served.
"""
