"""Shards: the same metrics over more captions than fit into memory, on one machine or on a cluster."""
