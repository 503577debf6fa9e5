"""Metrics of dense captions: sentences of a video with the start and the end of each."""
