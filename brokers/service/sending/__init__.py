"""A send from its frame to its answer."""
