"""Answers about groups that replicate by majority: members elect their leader among themselves."""
