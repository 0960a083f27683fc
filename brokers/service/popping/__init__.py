"""Pop consumption: messages are handed out and come back unless they are acknowledged in time
(PROTOCOL 4.9).
"""
