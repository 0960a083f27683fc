"""The local Kafka, and the topics of the log on any Kafka."""
