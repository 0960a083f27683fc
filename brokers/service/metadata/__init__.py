"""Topics, groups and offsets by request: changes, reads, and how replicas copy them."""
