"""Chat models as judges: any server with the OpenAI protocol, or a ``transformers`` model in this process.

A metric makes a `Request` for each question, asks a `Judge` for all of them at once, and parses each `Reply`. Replies
are kept in a `ReplyStore`, and parsing always starts from the record: a better parser needs no new calls.
"""
