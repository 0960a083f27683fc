"""The index of messages by key: its files, how it follows the log, queries."""
