"""The layers beside one another: silver and gold made again of what landed, bronze beside Kafka."""
