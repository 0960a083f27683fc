"""Load for a local cluster, in processes of its own, through the name server and RocketMQ's
protocol.
"""
