"""The local cluster, its supervision, and the `regent` command line. Imports every other package;
none imports it.
"""
