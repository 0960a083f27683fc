"""Landing of every record in Delta tables, and the questions that are asked of them."""
