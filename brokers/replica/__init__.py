"""One replica of a broker set: its role, its links and what it may promise."""
