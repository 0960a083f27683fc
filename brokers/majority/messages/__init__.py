"""A broker's messages in a log of entries: `store.log.message_log.MessageLog` and `MessageStore`
over `brokers/majority/store`, one message in each entry (PROTOCOL 9.6).

May know the stores of both kinds and what a member is asked to append. Refuses to know roles,
links and clients.
"""
