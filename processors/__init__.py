"""Controllers and name servers: pure rules inside, thin shells outside."""
