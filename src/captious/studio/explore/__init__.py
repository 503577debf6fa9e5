"""Explore captions, scores and ratings of several runs in a browser."""
