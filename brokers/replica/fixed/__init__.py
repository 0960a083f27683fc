"""One replica of a set without controllers: its role is written in its configuration, and it speaks
RocketMQ's default HA stream (PROTOCOL 2.12).

A pure core with the inputs and effects of `brokers/replica/core.py`: driver, store and services
stay as they are. It writes no epochs, so that a broker of RocketMQ's can open the folder.
"""
