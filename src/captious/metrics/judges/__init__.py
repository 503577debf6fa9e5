"""Metrics that ask a chat model. Prompts are files in ``prompts/``, in our own words; a user may name another file."""
