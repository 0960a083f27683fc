"""What a start believes of the bytes it finds: the plan, the walk, the cut, the checkpoint."""
