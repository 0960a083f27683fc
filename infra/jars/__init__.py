"""Java and the jars: found, or fetched by name, version and hash."""
