"""Who serves: this replica's role as requests see it, forwarding, hand-over."""
