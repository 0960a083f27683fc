"""The Delta tables as such: specifications, reading, writing, locks."""
