"""A cluster on this machine: its plan, its data folder, its supervisor, what runs."""
