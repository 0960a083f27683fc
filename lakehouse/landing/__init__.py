"""Records from the topics into bronze and silver tables."""
