"""RocketMQ remoting: frames, commands and connections that carry them."""
