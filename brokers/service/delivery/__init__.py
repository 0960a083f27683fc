"""What is delivered later than it is sent: delay levels, retries, dead letters.

May know the store, the tables, roles and how messages are sent; not sockets beyond a request.
"""
