"""The commit log: records, segments, scanning, damage and its cure, flushing, retention."""
