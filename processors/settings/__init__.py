"""What people configure and what the log records of it, under our names and RocketMQ's."""
