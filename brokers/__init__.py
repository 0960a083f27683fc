"""Broker processes: store, replication, client service and the remoting protocol they share."""
