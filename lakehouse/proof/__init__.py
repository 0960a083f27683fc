"""The proof that what landed is what the controllers decided: the fold once more."""
