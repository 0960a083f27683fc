"""Who is connected: groups, their members and subscriptions, locks of queues, heartbeats."""
